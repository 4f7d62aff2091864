! regroup.h for Fortran: `use regroup`. Each procedure has the name and the
! order of arguments of its C function, without counts and types of elements,
! which arrays know themselves; docs/fortran.md is the manual.
!
! Fortran 2018, since an assumed-rank dummy (`x(..)`) is what takes scalars and
! arrays of any rank in one procedure for each type: an assumed-size one would
! fit no generic name, and `type(*)` does not tell the type of its elements.
!
! A module for each type of elements comes from elements.inc; all of them share
! regroup_base, and the module regroup puts them together.
module regroup_base
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64, &
        real32, real64
    implicit none
    private

    ! ---------------------------------------------------------- constants

    integer(c_int), parameter, public :: &
        RG_OK = 0, RG_IN_PROGRESS = 1, RG_JOINING = 2, &
        RG_ERR_INVALID = -1, RG_ERR_MEMORY = -2, RG_ERR_SYSTEM = -3, &
        RG_ERR_NOT_MEMBER = -4, RG_ERR_UNSUPPORTED = -5, &
        RG_ERR_MISMATCH = -6, RG_ERR_SET_ENDED = -7, RG_ERR_NOT_FOUND = -8, &
        RG_ERR_TIMEOUT = -9, RG_ERR_HOSTS_CHANGED = -20, &
        RG_ERR_PEER_LOST = -21, RG_ERR_REFUSED = -30, &
        RG_ERR_AGENT_LOST = -31, RG_ERR_JOB_ENDED = -32, RG_ERR_STORE = -33, &
        RG_ERR_DAMAGED = -34, RG_ERR_ASKED_TO_LEAVE = -35, &
        RG_ERR_DEVICE = -36
    integer(c_int), parameter, public :: &
        RG_ADVICE_NONE = 0, RG_ADVICE_RETRY = 1, RG_ADVICE_FIX = 2, &
        RG_ADVICE_RESYNC = 3, RG_ADVICE_RESTORE = 4, RG_ADVICE_ABORT = 5
    integer(c_int), parameter, public :: &
        RG_U8 = 0, RG_I32 = 1, RG_I64 = 2, RG_F32 = 3, RG_F64 = 4, &
        RG_F32_I32 = 11, RG_F64_I32 = 12, RG_I32_I32 = 13, RG_I64_I32 = 14
    integer(c_int), parameter, public :: &
        RG_SUM = 0, RG_AVG = 1, RG_MIN = 2, RG_MAX = 3, RG_PROD = 4, &
        RG_LAND = 5, RG_LOR = 6, RG_LXOR = 7, RG_BAND = 8, RG_BOR = 9, &
        RG_BXOR = 10, RG_MINLOC = 11, RG_MAXLOC = 12
    integer(c_int), parameter, public :: &
        RG_REPLICATED = 0, RG_SHARDED = 1, RG_LOCAL = 2
    integer(c_int), parameter, public :: RG_HOST = 0, RG_DEVICE = 1
    integer(c_int), parameter, public :: RG_NO_COLOR = -1

    ! -------------------------------------------------------------- types

    type, public :: rg_ctx
        type(c_ptr) :: handle = c_null_ptr
    end type
    type, public :: rg_set
        type(c_ptr) :: handle = c_null_ptr
    end type
    type, public :: rg_state
        type(c_ptr) :: handle = c_null_ptr
    end type
    type, public :: rg_request
        type(c_ptr) :: handle = c_null_ptr
    end type

    type, public :: rg_reducer
        type(c_ptr) :: handle = c_null_ptr
    end type
    type, public :: rg_parts
        type(c_ptr) :: handle = c_null_ptr
    end type

    ! Elements of RG_MINLOC and RG_MAXLOC.
    type, bind(C), public :: rg_pair_f32
        real(c_float) :: value
        integer(c_int32_t) :: index
    end type
    type, bind(C), public :: rg_pair_f64
        real(c_double) :: value
        integer(c_int32_t) :: index
    end type
    type, bind(C), public :: rg_pair_i32
        integer(c_int32_t) :: value, index
    end type
    type, bind(C), public :: rg_pair_i64
        integer(c_int64_t) :: value
        integer(c_int32_t) :: index
    end type

    ! Structures of regroup.h. The library is told their size; a program leaves
    ! bytes as it is: rg_buffer_params(kind=RG_LOCAL, replicas=1).
    type, bind(C) :: rg_params
        integer(c_size_t) :: bytes = 16
        integer(c_int) :: elastic = 0
    end type
    type, bind(C) :: rg_set_params
        integer(c_size_t) :: bytes = 32
        type(c_ptr) :: name = c_null_ptr
        integer(c_int) :: keep = 0
        integer(c_int) :: unused = 0
        integer(c_int) :: memory = RG_HOST
    end type
    type, bind(C) :: rg_save_params
        integer(c_size_t) :: bytes = 16
        integer(c_int) :: keep = 0
    end type
    type, bind(C), public :: rg_buffer_params
        integer(c_size_t) :: bytes = 56
        integer(c_int) :: kind = RG_REPLICATED
        integer(c_int) :: replicas = 0
        integer(c_size_t) :: align = 0
        integer(c_int) :: may_differ = 0
        integer(c_int) :: constant = 0
        integer(c_int) :: memory = RG_HOST
        type(c_funptr) :: redistribute = c_null_funptr
        type(c_ptr) :: redistribute_arg = c_null_ptr
    end type
    type, bind(C), public :: rg_op_params
        integer(c_size_t) :: bytes = 56
        integer(c_int) :: root = 0
        integer(c_int) :: timeout_ms = 0
        real(c_double) :: prescale = 0
        real(c_double) :: postscale = 0
        integer(c_int64_t) :: tag = 0
        integer(c_int) :: memory = RG_HOST
        type(c_ptr) :: stream = c_null_ptr
    end type

    type, bind(C), public :: rg_reducer_params
        integer(c_size_t) :: bytes = 64
        integer(c_int) :: sum = 0
        integer(c_int) :: may_miss = 0
        integer(c_int64_t) :: bucket_bytes = 0
        real(c_double) :: scale = 0
        integer(c_int) :: compression = 0
        integer(c_int) :: error_feedback = 0
        real(c_double) :: top_k = 0
        integer(c_int) :: adasum = 0
        integer(c_int) :: deterministic = 0
        integer(c_int64_t) :: own_bytes = 0
    end type

    ! What rg_run and others call; c_funloc(fn) is what they take. The handle
    ! that fn gets becomes a state again with rg_state(handle).
    abstract interface
        function rg_train_fn(state, arg) result(st) bind(C)
            import
            type(c_ptr), value :: state, arg
            integer(c_int) :: st
        end function
        function rg_color_fn(ctx, arg) result(color) bind(C)
            import
            type(c_ptr), value :: ctx, arg
            integer(c_int) :: color
        end function
    end interface
    public :: rg_train_fn, rg_color_fn

    ! ---------------------------------------------------------- functions

    public :: rg_init, rg_finalize, rg_world_wait, rg_rank, rg_size, &
        rg_local_rank, rg_local_size, rg_host_index, rg_host_count, rg_slot, &
        rg_generation, rg_world, rg_set_create, rg_set_create_by, &
        rg_set_split, rg_set_destroy, rg_set_rank, rg_set_size, rg_barrier, &
        rg_wait, rg_test, rg_group_start, rg_group_end, rg_state_create, &
        rg_state_destroy, rg_state_add, rg_state_commit, rg_step_end, &
        rg_state_step, rg_state_resume, rg_state_load, rg_state_save, &
        rg_stop, rg_run, rg_next, rg_barrier_start, rg_reducer_create, &
        rg_reducer_destroy, rg_reducer_start_step, rg_reducer_ready, &
        rg_reducer_finish, rg_parts_count, rg_parts_bytes, rg_parts_read, &
        rg_exit_code, rg_last_error, rg_status_name, &
        rg_status_text
    ! For the modules beside this one.
    public :: done, refuse, fits, c_string, describe, rg_params, &
        rg_set_params, have_parts, root_of, with_tag, wait_if_started
    integer, parameter, public :: PART_IS_ALL = 0, SEND_HAS_PARTS = 1, &
        RECV_HAS_PARTS = 2, BOTH_HAVE_PARTS = 3

    interface rg_state_add
        module procedure state_add_bytes
    end interface

    ! C functions of one shape share an interface. Only with handles: gfortran
    ! 12 hands integers over by reference here, whatever the interface says.
    abstract interface
        function of_handle(handle) result(st) bind(C)
            import
            type(c_ptr), value :: handle
            integer(c_int) :: st
        end function
    end interface

    procedure(of_handle), bind(C, name="rg_finalize") :: c_finalize
    procedure(of_handle), bind(C, name="rg_world_wait") :: c_world_wait
    procedure(of_handle), bind(C, name="rg_rank") :: c_rank
    procedure(of_handle), bind(C, name="rg_size") :: c_size
    procedure(of_handle), bind(C, name="rg_local_rank") :: c_local_rank
    procedure(of_handle), bind(C, name="rg_local_size") :: c_local_size
    procedure(of_handle), bind(C, name="rg_host_index") :: c_host_index
    procedure(of_handle), bind(C, name="rg_host_count") :: c_host_count
    procedure(of_handle), bind(C, name="rg_slot") :: c_slot
    procedure(of_handle), bind(C, name="rg_set_destroy") :: c_set_destroy
    procedure(of_handle), bind(C, name="rg_set_rank") :: c_set_rank
    procedure(of_handle), bind(C, name="rg_set_size") :: c_set_size
    procedure(of_handle), bind(C, name="rg_barrier") :: c_barrier
    procedure(of_handle), bind(C, name="rg_parts_count") :: c_parts_count
    procedure(of_handle), bind(C, name="rg_reducer_start_step") :: &
        c_reducer_start_step
    procedure(of_handle), bind(C, name="rg_reducer_finish") :: &
        c_reducer_finish
    procedure(of_handle), bind(C, name="rg_group_start") :: c_group_start
    procedure(of_handle), bind(C, name="rg_group_end") :: c_group_end
    procedure(of_handle), bind(C, name="rg_state_commit") :: c_state_commit
    procedure(of_handle), bind(C, name="rg_step_end") :: c_step_end
    procedure(of_handle), bind(C, name="rg_stop") :: c_stop

    interface
        function c_init(params, ctx) result(st) bind(C, name="rg_init")
            import
            type(rg_params), intent(in), optional :: params
            type(c_ptr), intent(inout) :: ctx
            integer(c_int) :: st
        end function
        function c_generation(ctx) result(g) bind(C, name="rg_generation")
            import
            type(c_ptr), value :: ctx
            integer(c_int64_t) :: g
        end function
        function c_world(ctx) result(set) bind(C, name="rg_world")
            import
            type(c_ptr), value :: ctx
            type(c_ptr) :: set
        end function
        function c_set_create(ctx, ranks, n, params, set) result(st) &
            bind(C, name="rg_set_create")
            import
            type(c_ptr), value :: ctx
            integer(c_int), intent(in) :: ranks(*)
            integer(c_int), value :: n
            type(rg_set_params), intent(in) :: params
            type(c_ptr), intent(inout) :: set
            integer(c_int) :: st
        end function
        function c_set_create_by(ctx, color, arg, params, set) result(st) &
            bind(C, name="rg_set_create_by")
            import
            type(c_ptr), value :: ctx, arg
            type(c_funptr), value :: color
            type(rg_set_params), intent(in) :: params
            type(c_ptr), intent(inout) :: set
            integer(c_int) :: st
        end function
        function c_set_split(ctx, color, key, params, set) result(st) &
            bind(C, name="rg_set_split")
            import
            type(c_ptr), value :: ctx
            integer(c_int), value :: color, key
            type(rg_set_params), intent(in) :: params
            type(c_ptr), intent(inout) :: set
            integer(c_int) :: st
        end function
        function c_wait(req, timeout_ms) result(st) bind(C, name="rg_wait")
            import
            type(c_ptr), intent(inout) :: req
            integer(c_int), value :: timeout_ms
            integer(c_int) :: st
        end function
        function c_state_create(ctx, params, state) result(st) &
            bind(C, name="rg_state_create")
            import
            type(c_ptr), value :: ctx, params
            type(c_ptr), intent(inout) :: state
            integer(c_int) :: st
        end function
        subroutine c_state_destroy(state) bind(C, name="rg_state_destroy")
            import
            type(c_ptr), value :: state
        end subroutine
        function c_state_add(state, name, data, bytes, params) result(st) &
            bind(C, name="rg_state_add")
            import
            type(c_ptr), value :: state, data
            character(kind=c_char), intent(in) :: name(*)
            integer(c_size_t), value :: bytes
            type(rg_buffer_params), intent(in), optional :: params
            integer(c_int) :: st
        end function
        function c_state_step(state) result(step) &
            bind(C, name="rg_state_step")
            import
            type(c_ptr), value :: state
            integer(c_int64_t) :: step
        end function
        function c_state_resume(state, step) result(st) &
            bind(C, name="rg_state_resume")
            import
            type(c_ptr), value :: state
            integer(c_int64_t), intent(inout) :: step
            integer(c_int) :: st
        end function
        function c_state_load(state, path, step) result(st) &
            bind(C, name="rg_state_load")
            import
            type(c_ptr), value :: state, path
            integer(c_int64_t), intent(inout) :: step
            integer(c_int) :: st
        end function
        function c_state_save(state, dir, params) result(st) &
            bind(C, name="rg_state_save")
            import
            type(c_ptr), value :: state, dir
            type(rg_save_params), intent(in) :: params
            integer(c_int) :: st
        end function
        function c_next(state, st) result(goes_on) bind(C, name="rg_next")
            import
            type(c_ptr), value :: state
            integer(c_int), intent(inout) :: st
            integer(c_int) :: goes_on
        end function
        function c_barrier_start(set, params, request) result(st) &
            bind(C, name="rg_barrier_start")
            import
            type(c_ptr), value :: set
            type(rg_op_params), intent(in), optional :: params
            type(c_ptr), intent(inout) :: request
            integer(c_int) :: st
        end function
        function c_reducer_create(set, params, reducer) result(st) &
            bind(C, name="rg_reducer_create")
            import
            type(c_ptr), value :: set
            type(rg_reducer_params), intent(in), optional :: params
            type(c_ptr), intent(inout) :: reducer
            integer(c_int) :: st
        end function
        subroutine c_reducer_destroy(reducer) &
            bind(C, name="rg_reducer_destroy")
            import
            type(c_ptr), value :: reducer
        end subroutine
        function c_reducer_ready(reducer, index) result(st) &
            bind(C, name="rg_reducer_ready")
            import
            type(c_ptr), value :: reducer
            integer(c_int), value :: index
            integer(c_int) :: st
        end function
        function c_parts_bytes(parts, i, bytes) result(st) &
            bind(C, name="rg_parts_bytes")
            import
            type(c_ptr), value :: parts
            integer(c_int), value :: i
            integer(c_size_t), intent(inout) :: bytes
            integer(c_int) :: st
        end function
        function c_parts_read(parts, i, begin, n, to) result(st) &
            bind(C, name="rg_parts_read")
            import
            type(c_ptr), value :: parts, to
            integer(c_int), value :: i
            integer(c_size_t), value :: begin, n
            integer(c_int) :: st
        end function
        function c_run(state, fn, arg) result(st) bind(C, name="rg_run")
            import
            type(c_ptr), value :: state, arg
            type(c_funptr), value :: fn
            integer(c_int) :: st
        end function
        function rg_exit_code(st) result(code) bind(C, name="rg_exit_code")
            import
            integer(c_int), value :: st
            integer(c_int) :: code
        end function
        function c_advice(st) result(advice) &
            bind(C, name="rg_status_advice")
            import
            integer(c_int), value :: st
            integer(c_int) :: advice
        end function
        function c_status_name(st) result(text) bind(C, name="rg_status_name")
            import
            integer(c_int), value :: st
            type(c_ptr) :: text
        end function
        function c_status_text(st) result(text) bind(C, name="rg_status_text")
            import
            integer(c_int), value :: st
            type(c_ptr) :: text
        end function
        function c_last_error() result(text) bind(C, name="rg_last_error")
            import
            type(c_ptr) :: text
        end function
        function c_strlen(text) result(n) bind(C, name="strlen")
            import
            type(c_ptr), value :: text
            integer(c_size_t) :: n
        end function
    end interface

    ! The sentence of an error that this module has found itself, while it is
    ! the last one.
    character(len=200) :: own_sentence = ""

contains

    ! ------------------------------------------------------------- errors

    ! Without ierr an error ends the program, as MPI_ERRORS_ARE_FATAL does;
    ! what only tells something (there is no commit yet) does not.
    subroutine done(st, ierr)
        integer(c_int), intent(in) :: st
        integer, intent(out), optional :: ierr
        own_sentence = ""
        call report(st, ierr)
    end subroutine

    subroutine report(st, ierr)
        integer(c_int), intent(in) :: st
        integer, intent(out), optional :: ierr
        if (present(ierr)) then
            ierr = st
        else if (c_advice(st) > RG_ADVICE_RETRY) then
            write (error_unit, "(a)") "regroup: " // rg_last_error()
            flush (error_unit)
            stop 1, quiet=.true.
        end if
    end subroutine

    subroutine refuse(sentence, ierr)
        character(len=*), intent(in) :: sentence
        integer, intent(out), optional :: ierr
        own_sentence = sentence
        call report(RG_ERR_INVALID, ierr)
    end subroutine

    ! Whether an array of `has` elements has room for `needs`; otherwise it is
    ! an error.
    function fits(what, has, needs, ierr) result(is_enough)
        character(len=*), intent(in) :: what
        integer(c_int64_t), intent(in) :: has, needs
        integer, intent(out), optional :: ierr
        logical :: is_enough
        character(len=200) :: sentence
        is_enough = has >= needs .and. needs >= 0
        if (is_enough) return
        if (has < 0 .or. needs < 0) then
            sentence = what // " has no known size; pass a section with " // &
                "bounds, such as x(1:n)"
        else
            write (sentence, "(a, ' has ', i0, ' elements, and ', i0, &
                &' are needed; make it larger')") what, has, needs
        end if
        call refuse(trim(sentence), ierr)
    end function

    function text_at(at) result(text)
        type(c_ptr), intent(in) :: at
        character(len=:), allocatable :: text
        character(kind=c_char), pointer :: chars(:)
        integer :: i
        call c_f_pointer(at, chars, [c_strlen(at)])
        allocate (character(len=size(chars)) :: text)
        do i = 1, size(chars)
            text(i:i) = chars(i)
        end do
    end function

    function rg_last_error() result(text)
        character(len=:), allocatable :: text
        if (own_sentence == "") then
            text = text_at(c_last_error())
        else
            text = trim(own_sentence)
        end if
    end function

    function rg_status_name(st) result(text)
        integer, intent(in) :: st
        character(len=:), allocatable :: text
        text = text_at(c_status_name(st))
    end function

    function rg_status_text(st) result(text)
        integer, intent(in) :: st
        character(len=:), allocatable :: text
        text = text_at(c_status_text(st))
    end function

    function c_string(text) result(copy)
        character(len=*), intent(in) :: text
        character(len=:, kind=c_char), allocatable :: copy
        copy = trim(text) // c_null_char
    end function

    ! ------------------------------------------------------------ context

    subroutine rg_init(ctx, elastic, ierr)
        type(rg_ctx), intent(inout) :: ctx
        logical, intent(in), optional :: elastic
        integer, intent(out), optional :: ierr
        type(rg_params) :: params
        if (present(elastic)) then
            params%elastic = merge(1, 0, elastic)
            call done(c_init(params, ctx%handle), ierr)
        else
            call done(c_init(ctx=ctx%handle), ierr)
        end if
    end subroutine

    subroutine rg_finalize(ctx, ierr)
        type(rg_ctx), intent(inout) :: ctx
        integer, intent(out), optional :: ierr
        call done(c_finalize(ctx%handle), ierr)
        ctx%handle = c_null_ptr
    end subroutine

    ! ierr: RG_OK or RG_JOINING.
    subroutine rg_world_wait(ctx, ierr)
        type(rg_ctx), intent(in) :: ctx
        integer, intent(out), optional :: ierr
        call done(c_world_wait(ctx%handle), ierr)
    end subroutine

    integer function rg_rank(ctx)
        type(rg_ctx), intent(in) :: ctx
        rg_rank = c_rank(ctx%handle)
    end function

    integer function rg_size(ctx)
        type(rg_ctx), intent(in) :: ctx
        rg_size = c_size(ctx%handle)
    end function

    integer function rg_local_rank(ctx)
        type(rg_ctx), intent(in) :: ctx
        rg_local_rank = c_local_rank(ctx%handle)
    end function

    integer function rg_local_size(ctx)
        type(rg_ctx), intent(in) :: ctx
        rg_local_size = c_local_size(ctx%handle)
    end function

    integer function rg_host_index(ctx)
        type(rg_ctx), intent(in) :: ctx
        rg_host_index = c_host_index(ctx%handle)
    end function

    integer function rg_host_count(ctx)
        type(rg_ctx), intent(in) :: ctx
        rg_host_count = c_host_count(ctx%handle)
    end function

    integer function rg_slot(ctx)
        type(rg_ctx), intent(in) :: ctx
        rg_slot = c_slot(ctx%handle)
    end function

    integer(int64) function rg_generation(ctx)
        type(rg_ctx), intent(in) :: ctx
        rg_generation = c_generation(ctx%handle)
    end function

    ! --------------------------------------------------------------- sets

    type(rg_set) function rg_world(ctx)
        type(rg_ctx), intent(in) :: ctx
        rg_world%handle = c_world(ctx%handle)
    end function

    ! text is the caller's, and holds the name while the call lasts.
    subroutine describe(params, text, name, keep)
        type(rg_set_params), intent(out) :: params
        character(len=:, kind=c_char), allocatable, target, intent(out) :: text
        character(len=*), intent(in), optional :: name
        logical, intent(in), optional :: keep
        if (present(keep)) params%keep = merge(1, 0, keep)
        if (.not. present(name)) return
        text = c_string(name)
        params%name = c_loc(text)
    end subroutine

    subroutine rg_set_create(ctx, ranks, set, name, keep, ierr)
        type(rg_ctx), intent(in) :: ctx
        integer, intent(in), contiguous :: ranks(:)
        type(rg_set), intent(inout) :: set
        character(len=*), intent(in), optional :: name
        logical, intent(in), optional :: keep
        integer, intent(out), optional :: ierr
        type(rg_set_params) :: params
        character(len=:, kind=c_char), allocatable, target :: text
        call describe(params, text, name, keep)
        call done(c_set_create(ctx%handle, ranks, size(ranks), params, &
            set%handle), ierr)
    end subroutine

    subroutine rg_set_create_by(ctx, color, arg, set, name, ierr)
        type(rg_ctx), intent(in) :: ctx
        procedure(rg_color_fn) :: color
        type(c_ptr), intent(in) :: arg
        type(rg_set), intent(inout) :: set
        character(len=*), intent(in), optional :: name
        integer, intent(out), optional :: ierr
        type(rg_set_params) :: params
        character(len=:, kind=c_char), allocatable, target :: text
        call describe(params, text, name)
        call done(c_set_create_by(ctx%handle, c_funloc(color), arg, params, &
            set%handle), ierr)
    end subroutine

    subroutine rg_set_split(ctx, color, key, set, name, keep, ierr)
        type(rg_ctx), intent(in) :: ctx
        integer, intent(in) :: color, key
        type(rg_set), intent(inout) :: set
        character(len=*), intent(in), optional :: name
        logical, intent(in), optional :: keep
        integer, intent(out), optional :: ierr
        type(rg_set_params) :: params
        character(len=:, kind=c_char), allocatable, target :: text
        call describe(params, text, name, keep)
        call done(c_set_split(ctx%handle, color, key, params, set%handle), &
            ierr)
    end subroutine

    subroutine rg_set_destroy(set, ierr)
        type(rg_set), intent(inout) :: set
        integer, intent(out), optional :: ierr
        integer(c_int) :: st
        st = c_set_destroy(set%handle)
        if (st == RG_OK) set%handle = c_null_ptr
        call done(st, ierr)
    end subroutine

    integer function rg_set_rank(set)
        type(rg_set), intent(in) :: set
        rg_set_rank = c_set_rank(set%handle)
    end function

    integer function rg_set_size(set)
        type(rg_set), intent(in) :: set
        rg_set_size = c_set_size(set%handle)
    end function

    ! --------------------------------------------------------- operations

    subroutine rg_barrier(set, ierr)
        type(rg_set), intent(in) :: set
        integer, intent(out), optional :: ierr
        call done(c_barrier(set%handle), ierr)
    end subroutine

    subroutine rg_barrier_start(set, request, params, ierr)
        type(rg_set), intent(in) :: set
        type(rg_request), intent(inout) :: request
        type(rg_op_params), intent(in), optional :: params
        integer, intent(out), optional :: ierr
        call done(c_barrier_start(set%handle, params, request%handle), ierr)
    end subroutine

    ! Whether send and recv have what an operation of that shape needs, at the
    ! root alone if that is not -1; count is what the C function takes.
    function have_parts(what, shape, set, root, sends, recvs, count, ierr) &
        result(they_do)
        character(len=*), intent(in) :: what
        integer, intent(in) :: shape, root
        type(rg_set), intent(in) :: set
        integer(c_int64_t), intent(in) :: sends, recvs
        integer(c_int64_t), intent(out) :: count
        integer, intent(out), optional :: ierr
        logical :: they_do
        integer(c_int64_t) :: n
        n = max(rg_set_size(set), 1)
        count = sends
        if (shape == SEND_HAS_PARTS) count = recvs
        if (shape == BOTH_HAVE_PARTS) count = sends / n
        they_do = shape /= BOTH_HAVE_PARTS .or. count * n == sends
        if (.not. they_do) call refuse(what // ": send can't be cut into " // &
            "equal parts for all members", ierr)
        if (.not. they_do .or. .not. is_for_me(set, root)) return
        select case (shape)
        case (PART_IS_ALL)
            they_do = fits(what // ": recv", recvs, count, ierr)
        case (SEND_HAS_PARTS)
            they_do = fits(what // ": send", sends, count * n, ierr)
        case default
            they_do = fits(what // ": recv", recvs, count * n, ierr)
        end select
    end function

    logical function is_for_me(set, root)
        type(rg_set), intent(in) :: set
        integer, intent(in) :: root
        is_for_me = root == -1
        if (.not. is_for_me) is_for_me = rg_set_rank(set) == root
    end function

    integer function root_of(params)
        type(rg_op_params), intent(in), optional :: params
        root_of = 0
        if (present(params)) root_of = params%root
    end function

    type(rg_op_params) function with_tag(tag)
        integer(int64), intent(in), optional :: tag
        if (present(tag)) with_tag%tag = tag
    end function

    ! What follows a start that returned st.
    subroutine wait_if_started(request, st, ierr)
        type(rg_request), intent(inout) :: request
        integer, intent(in) :: st
        integer, intent(out), optional :: ierr
        if (st == RG_OK) then
            call rg_wait(request, ierr)
        else
            call report(st, ierr)
        end if
    end subroutine

    subroutine rg_wait(request, ierr)
        type(rg_request), intent(inout) :: request
        integer, intent(out), optional :: ierr
        call done(c_wait(request%handle, -1), ierr)
    end subroutine

    subroutine rg_test(request, is_done, ierr)
        type(rg_request), intent(inout) :: request
        logical, intent(out) :: is_done
        integer, intent(out), optional :: ierr
        integer(c_int) :: st
        st = c_wait(request%handle, 0)
        is_done = st /= RG_IN_PROGRESS
        if (.not. is_done) st = RG_OK
        call done(st, ierr)
    end subroutine

    subroutine rg_group_start(ctx, ierr)
        type(rg_ctx), intent(in) :: ctx
        integer, intent(out), optional :: ierr
        call done(c_group_start(ctx%handle), ierr)
    end subroutine

    subroutine rg_group_end(ctx, ierr)
        type(rg_ctx), intent(in) :: ctx
        integer, intent(out), optional :: ierr
        call done(c_group_end(ctx%handle), ierr)
    end subroutine

    ! -------------------------------------------------------------- state

    subroutine rg_state_create(ctx, state, ierr)
        type(rg_ctx), intent(in) :: ctx
        type(rg_state), intent(inout) :: state
        integer, intent(out), optional :: ierr
        call done(c_state_create(ctx%handle, c_null_ptr, state%handle), ierr)
    end subroutine

    subroutine rg_state_destroy(state)
        type(rg_state), intent(inout) :: state
        call c_state_destroy(state%handle)
        state%handle = c_null_ptr
    end subroutine

    ! For memory of other types: c_loc(x), c_sizeof(x).
    subroutine state_add_bytes(state, name, data, bytes, params, ierr)
        type(rg_state), intent(in) :: state
        character(len=*), intent(in) :: name
        type(c_ptr), intent(in) :: data
        integer(c_size_t), intent(in) :: bytes
        type(rg_buffer_params), intent(in), optional :: params
        integer, intent(out), optional :: ierr
        call done(c_state_add(state%handle, c_string(name), data, bytes, &
            params), ierr)
    end subroutine

    subroutine rg_state_commit(state, ierr)
        type(rg_state), intent(in) :: state
        integer, intent(out), optional :: ierr
        call done(c_state_commit(state%handle), ierr)
    end subroutine

    subroutine rg_step_end(state, ierr)
        type(rg_state), intent(in) :: state
        integer, intent(out), optional :: ierr
        call done(c_step_end(state%handle), ierr)
    end subroutine

    integer(int64) function rg_state_step(state)
        type(rg_state), intent(in) :: state
        rg_state_step = c_state_step(state%handle)
    end function

    ! step is 0 where there is no commit, which ends no program.
    subroutine rg_state_resume(state, step, ierr)
        type(rg_state), intent(in) :: state
        integer(int64), intent(out) :: step
        integer, intent(out), optional :: ierr
        step = 0
        call done(c_state_resume(state%handle, step), ierr)
    end subroutine

    subroutine rg_state_load(state, path, step, ierr)
        type(rg_state), intent(in) :: state
        character(len=*), intent(in) :: path
        integer(int64), intent(out) :: step
        integer, intent(out), optional :: ierr
        character(len=:, kind=c_char), allocatable, target :: text
        step = 0
        text = c_string(path)
        call done(c_state_load(state%handle, place(text), step), ierr)
    end subroutine

    subroutine rg_state_save(state, dir, keep, ierr)
        type(rg_state), intent(in) :: state
        character(len=*), intent(in) :: dir
        integer, intent(in), optional :: keep
        integer, intent(out), optional :: ierr
        type(rg_save_params) :: params
        character(len=:, kind=c_char), allocatable, target :: text
        if (present(keep)) params%keep = keep
        text = c_string(dir)
        call done(c_state_save(state%handle, place(text), params), ierr)
    end subroutine

    ! "" stands for the directory of the job.
    function place(text) result(at)
        character(len=*, kind=c_char), intent(in), target :: text
        type(c_ptr) :: at
        at = c_null_ptr
        if (len(text) > 1) at = c_loc(text)
    end function

    subroutine rg_stop(state, ierr)
        type(rg_state), intent(in) :: state
        integer, intent(out), optional :: ierr
        call done(c_stop(state%handle), ierr)
    end subroutine

    ! rg_run as a loop: do while (rg_next(state, st)); st is RG_OK before the
    ! first call, and holds in the body what fn would return.
    logical function rg_next(state, st)
        type(rg_state), intent(in) :: state
        integer, intent(inout) :: st
        rg_next = c_next(state%handle, st) /= 0
    end function

    ! ------------------------------------------------------------ reducer

    subroutine rg_reducer_create(set, reducer, params, ierr)
        type(rg_set), intent(in) :: set
        type(rg_reducer), intent(inout) :: reducer
        type(rg_reducer_params), intent(in), optional :: params
        integer, intent(out), optional :: ierr
        call done(c_reducer_create(set%handle, params, reducer%handle), ierr)
    end subroutine

    subroutine rg_reducer_destroy(reducer)
        type(rg_reducer), intent(inout) :: reducer
        call c_reducer_destroy(reducer%handle)
        reducer%handle = c_null_ptr
    end subroutine

    subroutine rg_reducer_start_step(reducer, ierr)
        type(rg_reducer), intent(in) :: reducer
        integer, intent(out), optional :: ierr
        call done(c_reducer_start_step(reducer%handle), ierr)
    end subroutine

    subroutine rg_reducer_ready(reducer, index, ierr)
        type(rg_reducer), intent(in) :: reducer
        integer, intent(in) :: index
        integer, intent(out), optional :: ierr
        call done(c_reducer_ready(reducer%handle, index), ierr)
    end subroutine

    subroutine rg_reducer_finish(reducer, ierr)
        type(rg_reducer), intent(in) :: reducer
        integer, intent(out), optional :: ierr
        call done(c_reducer_finish(reducer%handle), ierr)
    end subroutine

    ! ----------------------------------- parts of a LOCAL buffer, from before
    ! What rg_buffer_params%redistribute gets becomes rg_parts(handle).

    integer function rg_parts_count(parts)
        type(rg_parts), intent(in) :: parts
        rg_parts_count = c_parts_count(parts%handle)
    end function

    subroutine rg_parts_bytes(parts, i, bytes, ierr)
        type(rg_parts), intent(in) :: parts
        integer, intent(in) :: i
        integer(c_size_t), intent(out) :: bytes
        integer, intent(out), optional :: ierr
        bytes = 0
        call done(c_parts_bytes(parts%handle, i, bytes), ierr)
    end subroutine

    ! n bytes of part i from begin on, to c_loc(x).
    subroutine rg_parts_read(parts, i, begin, n, to, ierr)
        type(rg_parts), intent(in) :: parts
        integer, intent(in) :: i
        integer(c_size_t), intent(in) :: begin, n
        type(c_ptr), intent(in) :: to
        integer, intent(out), optional :: ierr
        call done(c_parts_read(parts%handle, i, begin, n, to), ierr)
    end subroutine

    subroutine rg_run(state, fn, arg, ierr)
        type(rg_state), intent(in) :: state
        procedure(rg_train_fn) :: fn
        type(c_ptr), intent(in), optional :: arg
        integer, intent(out), optional :: ierr
        type(c_ptr) :: handed
        handed = c_null_ptr
        if (present(arg)) handed = arg
        call done(c_run(state%handle, c_funloc(fn), handed), ierr)
    end subroutine
end module

#define MODULE regroup_real32
#define ELEMENT real(real32)
#define CODE RG_F32
#define BYTES 4
#include "elements.inc"
#undef MODULE
#undef ELEMENT
#undef CODE
#undef BYTES

#define MODULE regroup_real64
#define ELEMENT real(real64)
#define CODE RG_F64
#define BYTES 8
#include "elements.inc"
#undef MODULE
#undef ELEMENT
#undef CODE
#undef BYTES

#define MODULE regroup_int32
#define ELEMENT integer(int32)
#define CODE RG_I32
#define BYTES 4
#include "elements.inc"
#undef MODULE
#undef ELEMENT
#undef CODE
#undef BYTES

#define MODULE regroup_int64
#define ELEMENT integer(int64)
#define CODE RG_I64
#define BYTES 8
#include "elements.inc"
#undef MODULE
#undef ELEMENT
#undef CODE
#undef BYTES

#define MODULE regroup_pair_f32
#define ELEMENT type(rg_pair_f32)
#define CODE RG_F32_I32
#define BYTES 8
#include "elements.inc"
#undef MODULE
#undef ELEMENT
#undef CODE
#undef BYTES

#define MODULE regroup_pair_f64
#define ELEMENT type(rg_pair_f64)
#define CODE RG_F64_I32
#define BYTES 16
#include "elements.inc"
#undef MODULE
#undef ELEMENT
#undef CODE
#undef BYTES

#define MODULE regroup_pair_i32
#define ELEMENT type(rg_pair_i32)
#define CODE RG_I32_I32
#define BYTES 8
#include "elements.inc"
#undef MODULE
#undef ELEMENT
#undef CODE
#undef BYTES

#define MODULE regroup_pair_i64
#define ELEMENT type(rg_pair_i64)
#define CODE RG_I64_I32
#define BYTES 16
#include "elements.inc"

module regroup
    use regroup_base
    use regroup_real32
    use regroup_real64
    use regroup_int32
    use regroup_int64
    use regroup_pair_f32
    use regroup_pair_f64
    use regroup_pair_i32
    use regroup_pair_i64
    implicit none
    private :: done, refuse, fits, c_string, describe, rg_params, &
        rg_set_params, have_parts, root_of, with_tag, wait_if_started, &
        PART_IS_ALL, SEND_HAS_PARTS, RECV_HAS_PARTS, BOTH_HAVE_PARTS
end module
