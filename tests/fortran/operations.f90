! Every operation of the module regroup once, against MPI's own result, for
! arrays of several ranks and types, sections with gaps included; the world by
! mpi_f08, a set by a communicator of `use mpi`.
module checks
    use, intrinsic :: iso_fortran_env, only: error_unit
    implicit none
    integer :: wrong = 0
contains
    subroutine claim(holds, what)
        logical, intent(in) :: holds
        character(len=*), intent(in) :: what
        if (holds) return
        wrong = wrong + 1
        write (error_unit, "(2a)") "does not hold: ", what
    end subroutine
end module

program operations
    use, intrinsic :: iso_fortran_env
    use mpi_f08
    use regroup_mpi
    use checks
    implicit none
    type(rg_ctx) :: ctx
    type(rg_set) :: world
    integer :: rank, size_of_world, level

    call MPI_Init_thread(MPI_THREAD_MULTIPLE, level)
    call rg_init_mpi(MPI_COMM_WORLD%MPI_VAL, ctx)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, size_of_world)
    call claim(rg_rank(ctx) == rank .and. rg_size(ctx) == size_of_world, &
        "ranks of Regroup are those of MPI")
    call claim(rg_local_rank(ctx) == rank .and. rg_local_size(ctx) == &
        size_of_world .and. rg_host_count(ctx) == 1 .and. &
        rg_host_index(ctx) == 0 .and. &
        rg_generation(ctx) == 1, "all ranks are on this host")
    world = rg_world(ctx)
    call reductions
    call exchanges
    call started
    call started_parts
    call messages
    call pairs
    call reduced_by_a_reducer
    call rows_of_integers(ctx)
    call mistakes
    call rg_barrier(world)
    call rg_finalize(ctx)
    call MPI_Finalize()
    if (wrong > 0) stop 1

contains

    subroutine reductions
        real(real64) :: a(3, 5), all(3, 5), mpis(3, 5), wide(6, 5)
        real(real32) :: x, most, mpis_most
        integer(int32) :: n(7), product_of(7), mpis_product(7)
        integer(int64) :: big(4 * size_of_world), part(4), mpis_part(4)
        integer :: i
        a = reshape([(1.0_real64 / (i + rank), i = 1, 15)], [3, 5])
        call rg_allreduce(world, a, all, RG_MAX)
        call MPI_Allreduce(a, mpis, 15, MPI_REAL8, MPI_MAX, MPI_COMM_WORLD)
        call claim(all(2, 4) == mpis(2, 4) .and. sum(abs(all - mpis)) == 0, &
            "allreduce of rank 2")
        wide = -1
        call rg_allreduce(world, a, wide(::2, :), RG_MAX)
        call claim(sum(abs(wide(::2, :) - mpis)) == 0 .and. &
            maxval(wide(2::2, :)) == -1, "allreduce into a section with gaps")
        all = a
        call rg_allreduce_in_place(world, all, RG_MAX)
        call claim(sum(abs(all - mpis)) == 0, "allreduce in place")
        x = 2.5 * rank
        call rg_allreduce(world, x, most, RG_MAX)
        call MPI_Allreduce(x, mpis_most, 1, MPI_REAL4, MPI_MAX, &
            MPI_COMM_WORLD)
        call claim(most == mpis_most, "allreduce of a scalar")
        n = [(i + rank, i = 1, 7)]
        call rg_reduce(world, n, product_of, RG_PROD, size_of_world - 1)
        call MPI_Reduce(n, mpis_product, 7, MPI_INTEGER4, MPI_PROD, &
            size_of_world - 1, MPI_COMM_WORLD)
        if (rank == size_of_world - 1) &
            call claim(all_equal(product_of, mpis_product), "reduce")
        big = [(10_int64**12 * i + rank, i = 1, 4 * size_of_world)]
        call rg_reduce_scatter(world, big, part, RG_SUM)
        call MPI_Reduce_scatter_block(big, mpis_part, 4, MPI_INTEGER8, &
            MPI_SUM, MPI_COMM_WORLD)
        call claim(maxval(abs(part - mpis_part)) == 0, "reduce_scatter")
    end subroutine

    logical function all_equal(a, b)
        integer(int32), intent(in) :: a(:), b(:)
        all_equal = all(a == b)
    end function

    subroutine exchanges
        integer(int32) :: own(2, 3), mpis(6 * size_of_world)
        integer(int32) :: all_ranks(6 * size_of_world)
        real(real64) :: x(4), parts(4 * size_of_world)
        integer :: i
        own = reshape([(100 * rank + i, i = 1, 6)], [2, 3])
        call rg_allgather(world, own, all_ranks)
        call MPI_Allgather(own, 6, MPI_INTEGER4, mpis, 6, MPI_INTEGER4, &
            MPI_COMM_WORLD)
        call claim(all_equal(all_ranks, mpis), "allgather")
        all_ranks = 0
        call rg_gather(world, own, all_ranks, 1)
        if (rank == 1) call claim(all_equal(all_ranks, mpis), "gather")
        x = rank
        call rg_broadcast(world, x, 1)
        call claim(all(x == 1), "broadcast")
        parts = [(real(i, real64), i = 1, 4 * size_of_world)]
        call rg_scatter(world, parts, x, 0)
        call claim(all(x == parts(4 * rank + 1:4 * rank + 4)), "scatter")
        mpis = [(1000 * rank + i, i = 1, 6 * size_of_world)]
        call rg_alltoall(world, mpis, all_ranks)
        call MPI_Alltoall(MPI_IN_PLACE, 6, MPI_INTEGER4, mpis, 6, &
            MPI_INTEGER4, MPI_COMM_WORLD)
        call claim(all_equal(all_ranks, mpis), "alltoall")
    end subroutine

    ! Rank r has r + 1 elements.
    subroutine started
        real(real64), target :: own(rank + 1), scaled(2), once(2)
        real(real64), allocatable, target :: all_ranks(:), again(:)
        integer(int64) :: counts(size_of_world), places(size_of_world)
        integer(int64) :: mine(size_of_world)
        type(rg_request) :: requests(3)
        logical :: is_done
        integer :: i, total
        counts = [(i, i = 1, size_of_world)]
        places = [(sum(counts(i + 1:)), i = 1, size_of_world)] ! backwards
        total = int(sum(counts))
        allocate (all_ranks(total), again(total))
        own = rank
        once = rank + 1
        call rg_allgatherv_start(world, own, all_ranks, counts, requests(1))
        call rg_allgatherv_start(world, own, again, counts, requests(2), &
            places)
        call rg_allreduce_start(world, once, scaled, RG_SUM, requests(3), &
            rg_op_params(postscale=0.5_real64, tag=7))
        do i = 1, 3
            is_done = .false.
            do while (.not. is_done)
                call rg_test(requests(i), is_done)
            end do
        end do
        do i = 1, size_of_world
            associate (first => int(sum(counts(:i - 1))), &
                       place => int(places(i)), n => int(counts(i)))
                call claim(all(all_ranks(first + 1:first + n) == i - 1), &
                    "allgatherv")
                call claim(all(again(place + 1:place + n) == i - 1), &
                    "allgatherv with places")
            end associate
        end do
        call claim(all(scaled == size_of_world * (size_of_world + 1) / 4.0), &
            "postscale")
        ! Part i of rank r has i elements, so every rank gets rank + 1 of each.
        mine = rank + 1
        deallocate (again)
        allocate (again((rank + 1) * size_of_world))
        call rg_alltoallv_start(world, all_ranks, counts, again, mine, &
            requests(1))
        call rg_broadcast_start(world, once, requests(2), &
            rg_op_params(root=1))
        call rg_wait(requests(2))
        call rg_wait(requests(1))
        call claim(all(again == rank), "alltoallv")
        call claim(all(once == 2), "broadcast with a root in params")
        call rg_group_start(ctx)
        call rg_allreduce_start(world, once, scaled, RG_PROD, requests(1))
        call rg_allreduce_start(world, own(1), all_ranks(1), RG_MAX, &
            requests(2))
        call rg_group_end(ctx)
        call rg_wait(requests(1))
        call rg_wait(requests(2))
        call claim(all(scaled == 2.0 ** size_of_world) .and. &
            all_ranks(1) == size_of_world - 1, "operations of a group")
    end subroutine

    ! Rank 1 is the root, by params.
    subroutine started_parts
        integer(int32), target :: own(3), all_ranks(3 * size_of_world)
        integer(int32), target :: back(3 * size_of_world), root_sum(3)
        integer(int32), target :: mine(3), gathered(3 * size_of_world)
        integer(int32), target :: scattered(3)
        type(rg_request) :: requests(7)
        type(rg_op_params) :: at_1
        integer :: i, j
        at_1 = rg_op_params(root=1)
        own = [(10 * rank + i, i = 1, 3)]
        all_ranks = [((10 * j + i, i = 1, 3), j = 0, size_of_world - 1)]
        gathered = 0
        call rg_reduce_start(world, own, root_sum, RG_SUM, requests(1), at_1)
        call rg_reduce_scatter_start(world, all_ranks, mine, RG_SUM, &
            requests(2))
        call rg_allgather_start(world, own, back, requests(3))
        call rg_gather_start(world, own, gathered, requests(4), at_1)
        call rg_scatter_start(world, all_ranks, scattered, requests(5), at_1)
        call rg_barrier_start(world, requests(6))
        do i = 1, 6
            call rg_wait(requests(i))
        end do
        call claim(all_equal(back, all_ranks), "allgather_start")
        call claim(all_equal(mine, size_of_world * own), &
            "reduce_scatter_start")
        call claim(all_equal(scattered, own), "scatter_start")
        if (rank == 1) then
            call claim(all_equal(gathered, all_ranks), "gather_start")
            call claim(all_equal(root_sum, [(5 * size_of_world * &
                (size_of_world - 1) + i * size_of_world, i = 1, 3)]), &
                "reduce_start")
        end if
        call rg_alltoall_start(world, all_ranks, back, requests(7))
        call rg_wait(requests(7))
        call claim(all_equal(back, [((10 * rank + i, i = 1, 3), &
            j = 1, size_of_world)]), "alltoall_start")
    end subroutine

    ! Around the ring: each rank sends what has its rank.
    subroutine messages
        real(real64), target :: own(5), theirs(6)
        type(rg_request) :: requests(2)
        integer(int64) :: got
        integer :: right, left
        right = mod(rank + 1, size_of_world)
        left = mod(rank + size_of_world - 1, size_of_world)
        own = rank
        got = 0
        call rg_recv_start(world, theirs, left, requests(1), got, &
            rg_op_params(tag=9))
        call rg_send_start(world, own, right, requests(2), &
            rg_op_params(tag=9))
        call rg_wait(requests(1))
        call rg_wait(requests(2))
        call claim(got == 5 .and. all(theirs(:5) == left), "recv_start")
        if (rank == 0) call rg_send(world, own + 7, 1, tag=3_int64)
        if (rank == 1) then
            call rg_recv(world, theirs, 0, tag=3_int64, got=got)
            call claim(got == 5 .and. all(theirs(:5) == 7), "recv")
        end if
    end subroutine

    ! The largest value is that of rank 1, the least that of rank 0, twice.
    subroutine pairs
        type(rg_pair_f64) :: own(2), best(2)
        type(rg_pair_i32) :: n, least
        own = rg_pair_f64(merge(3.5_real64, real(rank, real64) / 10, &
            rank == 1), rank + 40)
        call rg_allreduce(world, own, best, RG_MAXLOC)
        call claim(all(best%value == 3.5_real64) .and. &
            all(best%index == 41), "MAXLOC")
        n = rg_pair_i32(5, size_of_world - rank)
        call rg_reduce(world, n, least, RG_MINLOC, 1)
        if (rank == 1) call claim(least%value == 5 .and. least%index == 1, &
            "MINLOC of equal values is the lowest index")
    end subroutine

    subroutine reduced_by_a_reducer
        real(real32), target :: weights(100), bias(3)
        type(rg_reducer) :: reducer
        integer :: i, first, second
        call rg_reducer_create(world, reducer, rg_reducer_params(sum=1))
        call rg_reducer_add(reducer, "weights", weights, first)
        call rg_reducer_add(reducer, "bias", bias, second)
        do i = 1, 3
            weights = i * rank
            bias = 1
            call rg_reducer_start_step(reducer)
            call rg_reducer_ready(reducer, second)
            call rg_reducer_ready(reducer, first)
            call rg_reducer_finish(reducer)
            call claim(all(weights == i * size_of_world * &
                (size_of_world - 1) / 2) .and. all(bias == size_of_world), &
                "sums of a reducer")
        end do
        call rg_reducer_destroy(reducer)
    end subroutine

    subroutine mistakes
        real(real64), target :: a(4), b(3)
        type(rg_request) :: request
        integer :: ierr
        a = 1
        call rg_broadcast_start(world, a(::2), request, ierr=ierr)
        call claim(ierr == RG_ERR_INVALID .and. index(rg_last_error(), &
            "data has gaps") > 0, "what is started takes no copy")
        call rg_alltoall(world, a(:size_of_world + 1), a, ierr)
        call claim(ierr == RG_ERR_INVALID .and. index(rg_last_error(), &
            "equal parts") > 0, "parts of an alltoall are equal")
        call rg_allreduce(world, a, b, RG_SUM, ierr)
        call claim(ierr == RG_ERR_INVALID .and. index(rg_last_error(), &
            "recv has 3 elements, and 4 are needed") > 0, "recv is too small")
        call rg_allreduce(world, a(:3), b, 99, ierr)
        call claim(ierr == RG_ERR_INVALID .and. index(rg_last_error(), &
            "recv has") == 0, "the sentence is the library's again")
        call claim(rg_status_name(ierr) == "RG_ERR_INVALID", "names")
    end subroutine
end program

! Its communicators are integers.
subroutine rows_of_integers(ctx)
    use mpi
    use regroup_mpi
    use checks
    implicit none
    type(rg_ctx), intent(in) :: ctx
    type(rg_set) :: row, first
    integer :: comm, again, rank, row_rank, n, sum_of, mpis, how, ierr
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), -rank, comm, ierr)
    call MPI_Comm_rank(comm, row_rank, ierr)
    call rg_set_create_mpi(ctx, comm, row, name="row")
    call claim(rg_set_rank(row) == row_rank, "a set has its comm's ranks")
    n = 3 ** rank
    call rg_allreduce(row, n, sum_of, RG_SUM)
    call MPI_Allreduce(n, mpis, 1, MPI_INTEGER, MPI_SUM, comm, ierr)
    call claim(sum_of == mpis, "allreduce on a set of a communicator")
    call rg_set_mpi_comm(row, again)
    call MPI_Comm_compare(comm, again, how, ierr)
    call claim(how == MPI_CONGRUENT, "a communicator of the set")
    call MPI_Comm_free(again, ierr)
    call rg_set_destroy(row)
    call MPI_Comm_free(comm, ierr)
    call rg_set_create(ctx, [1, 0], first, keep=.true.)
    call claim(rg_set_size(first) == 2, "a set of ranks")
    call rg_set_split(ctx, mod(rank, 2), rank, row)
    call claim(rg_set_rank(row) == rank / 2, "a split")
    call rg_set_destroy(row)
    call rg_set_destroy(first)
end subroutine
