! An elastic program: its fn is called again after each change of membership,
! and total is then that of the last commit: 1 + 2 + ... + step. It ends when
! the file of its argument is there; without an argument it forgets ierr. With a
! second one it is a loop of rg_next.
module training
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env
    use regroup
    implicit none
    interface
        function usleep(us) result(code) bind(C, name="usleep")
            import
            integer(c_int), value :: us
            integer(c_int) :: code
        end function
    end interface
    type(rg_ctx) :: ctx
    real(real64), target :: total = 0
    character(len=200), target :: path
contains
    function train(handle, arg) result(ierr) bind(C)
        type(c_ptr), value :: handle, arg
        integer(c_int) :: ierr
        type(rg_state) :: state
        real(real64) :: mean
        character(len=200), pointer :: file
        logical :: is_there
        integer :: is_finished
        state = rg_state(handle)
        call c_f_pointer(arg, file)
        if (file == "") call rg_allreduce(rg_world(ctx), total, mean, 99)
        do
            inquire (file=file, exist=is_there)
            is_finished = merge(1, 0, is_there)
            call rg_broadcast(rg_world(ctx), is_finished, 0, ierr)
            if (ierr /= RG_OK .or. is_finished == 1) return
            call rg_allreduce(rg_world(ctx), &
                real(rg_state_step(state) + 1, real64), mean, RG_AVG, ierr)
            if (ierr /= RG_OK) return
            total = total + mean
            if (usleep(2000) /= 0) error stop 3
            call rg_state_commit(state, ierr)
            if (ierr /= RG_OK) return
        end do
    end function
end module

program train_main
    use training
    implicit none
    type(rg_state) :: state
    integer :: ierr
    call get_command_argument(1, path)
    call rg_init(ctx, elastic=.true.)
    call rg_state_create(ctx, state)
    call rg_state_add(state, "total", total)
    if (command_argument_count() < 2) then
        call rg_run(state, train, c_loc(path), ierr)
    else
        ierr = RG_OK
        do while (rg_next(state, ierr))
            ierr = train(state%handle, c_loc(path))
        end do
    end if
    if (ierr == RG_OK) write (output_unit, "(a,i0,a,f0.1)") "step ", &
        rg_state_step(state), " total ", total
    if (ierr /= RG_OK) write (error_unit, "(a)") rg_last_error()
    call rg_finalize(ctx)
    stop rg_exit_code(ierr), quiet=.true.
end program
