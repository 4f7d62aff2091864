! An MPI program without fn for `regroup run --mpi`: its value after k steps is
! that of tests/mpirun/solver.c, whatever happens meanwhile. Each rank has a
! LOCAL part beside it. It ends when the file of its argument is there.
program solver
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env
    use mpi_f08
    use regroup_mpi
    implicit none
    interface
        function usleep(us) result(code) bind(C, name="usleep")
            import
            integer(c_int), value :: us
            integer(c_int) :: code
        end function
    end interface
    type(rg_ctx) :: ctx
    type(rg_state) :: state
    integer(int64), target :: field(2) = 0
    real(real64), allocatable, target :: part(:, :)
    integer(int64) :: step, mine, everybodys
    integer :: rank, ranks, ierr
    character(len=200) :: path
    logical :: is_finished

    call get_command_argument(1, path)
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    allocate (part(5, rank + 1), source=0.0_real64)

    call rg_init_mpi(MPI_COMM_WORLD%MPI_VAL, ctx)
    call rg_state_create(ctx, state)
    call rg_state_add(state, "field", field)
    call rg_state_add(state, "part", part, rg_buffer_params(kind=RG_LOCAL))
    call rg_state_resume(state, step)
    if (any(part /= real((rank + 1) * step, real64))) error stop 9

    do
        inquire (file=path, exist=is_finished)
        call MPI_Bcast(is_finished, 1, MPI_LOGICAL, 0, MPI_COMM_WORLD)
        if (is_finished) exit
        mine = (rank + 1) * (step + 1)
        call MPI_Allreduce(mine, everybodys, 1, MPI_INTEGER8, MPI_SUM, &
            MPI_COMM_WORLD)
        field(1) = field(1) * 31 + everybodys
        part = part + rank + 1
        step = step + 1
        if (usleep(2000) /= 0) error stop 3
        call rg_state_commit(state, ierr)
        if (ierr == RG_ERR_HOSTS_CHANGED) exit
        if (ierr /= RG_OK) error stop 2
    end do
    if (rank == 0) write (output_unit, "(a,i0,a,z16.16,a,i0)") &
        "final step ", step, " value ", field(1), " of ", ranks
    flush (output_unit)
    call rg_finalize(ctx)
    call rg_state_destroy(state)
    call MPI_Finalize()
end program
