! Parts of three ranks, each of another length, that two ranks share out again:
! the first launch commits step 1, and the next one has all parts on each rank.
module sharing
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env
    use regroup
    implicit none
    real(real64), allocatable, target :: part(:)
contains
    function share(state, handle, arg) result(ierr) bind(C)
        type(c_ptr), value :: state, handle, arg
        integer(c_int) :: ierr
        type(rg_parts) :: parts
        integer(c_size_t) :: bytes
        integer :: i, at
        if (.not. c_associated(state) .or. c_associated(arg)) error stop 4
        parts = rg_parts(handle)
        at = 1
        do i = 0, rg_parts_count(parts) - 1
            call rg_parts_bytes(parts, i, bytes)
            call rg_parts_read(parts, i, 0_c_size_t, bytes, c_loc(part(at)))
            at = at + int(bytes / 8)
        end do
        call rg_parts_bytes(parts, 99, bytes, ierr)
        if (ierr /= RG_ERR_INVALID) error stop 5
        ierr = merge(RG_OK, RG_ERR_INVALID, at == 7)
    end function
end module

program parts_main
    use sharing
    use mpi_f08, only: MPI_Init, MPI_Finalize
    implicit none
    type(rg_ctx) :: ctx
    type(rg_state) :: state
    integer(int64) :: step
    integer :: i, n
    call MPI_Init()
    call rg_init(ctx)
    n = merge(rg_rank(ctx) + 1, 6, rg_size(ctx) == 3)
    allocate (part(n), source=real(rg_rank(ctx) + 1, real64))
    call rg_state_create(ctx, state)
    call rg_state_add(state, "part", part, rg_buffer_params(kind=RG_LOCAL, &
        redistribute=c_funloc(share)))
    call rg_state_resume(state, step)
    if (step == 0) then
        call rg_state_commit(state)
    else if (any(part /= [1, (2, i = 1, 2), (3, i = 1, 3)])) then
        error stop 9
    end if
    if (rg_rank(ctx) == 0) write (output_unit, "(a,i0)") "resumed at ", step
    flush (output_unit)
    call rg_finalize(ctx)
    call rg_state_destroy(state)
    call MPI_Finalize()
end program
