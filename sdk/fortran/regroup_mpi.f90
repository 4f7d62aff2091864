! regroup_mpi.h for Fortran: `use regroup_mpi`, which brings regroup along. A
! communicator is the integer of `use mpi`, and comm%MPI_VAL of mpi_f08.
module regroup_mpi
    use, intrinsic :: iso_c_binding
    use regroup
    use regroup_base, only: done, describe, rg_params, rg_set_params
    implicit none
    private :: done, describe, rg_params, rg_set_params, c_init_mpi, &
        c_set_create_mpi, c_set_mpi_comm

    interface
        function c_init_mpi(comm, params, ctx) result(st) &
            bind(C, name="rg_init_mpi_fint")
            import
            integer(c_int), value :: comm
            type(rg_params), intent(in) :: params
            type(c_ptr), intent(inout) :: ctx
            integer(c_int) :: st
        end function
        function c_set_create_mpi(ctx, comm, params, set) result(st) &
            bind(C, name="rg_set_create_mpi_fint")
            import
            type(c_ptr), value :: ctx
            integer(c_int), value :: comm
            type(rg_set_params), intent(in) :: params
            type(c_ptr), intent(inout) :: set
            integer(c_int) :: st
        end function
        function c_set_mpi_comm(set, comm) result(st) &
            bind(C, name="rg_set_mpi_comm_fint")
            import
            type(c_ptr), value :: set
            integer(c_int), intent(inout) :: comm
            integer(c_int) :: st
        end function
    end interface

contains

    subroutine rg_init_mpi(comm, ctx, ierr)
        integer, intent(in) :: comm
        type(rg_ctx), intent(inout) :: ctx
        integer, intent(out), optional :: ierr
        type(rg_params) :: params
        call done(c_init_mpi(comm, params, ctx%handle), ierr)
    end subroutine

    subroutine rg_set_create_mpi(ctx, comm, set, name, keep, ierr)
        type(rg_ctx), intent(in) :: ctx
        integer, intent(in) :: comm
        type(rg_set), intent(inout) :: set
        character(len=*), intent(in), optional :: name
        logical, intent(in), optional :: keep
        integer, intent(out), optional :: ierr
        type(rg_set_params) :: params
        character(len=:, kind=c_char), allocatable, target :: text
        call describe(params, text, name, keep)
        call done(c_set_create_mpi(ctx%handle, comm, params, set%handle), &
            ierr)
    end subroutine

    subroutine rg_set_mpi_comm(set, comm, ierr)
        type(rg_set), intent(in) :: set
        integer, intent(inout) :: comm
        integer, intent(out), optional :: ierr
        call done(c_set_mpi_comm(set%handle, comm), ierr)
    end subroutine
end module
