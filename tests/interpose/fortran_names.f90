! An MPI program in Fortran: each way of naming MPI, in place and not.
subroutine by_include(comm, rank, n, ok)
  implicit none
  include 'mpif.h'
  integer, intent(in) :: comm, rank, n
  logical, intent(inout) :: ok
  double precision :: x(3), y(3)
  integer :: i, ierr
  do i = 1, 20
    x = rank + [1, 2, 3] * i
    call mpi_allreduce(x, y, 3, MPI_DOUBLE_PRECISION, MPI_SUM, comm, ierr)
    ok = ok .and. ierr == MPI_SUCCESS
    call mpi_allreduce(MPI_IN_PLACE, x, 3, MPI_DOUBLE_PRECISION, MPI_SUM, &
                       comm, ierr)
    ok = ok .and. all(x == n * [1, 2, 3] * i + n * (n - 1) / 2) .and. all(x == y)
    call mpi_barrier(comm, ierr)
  end do
end subroutine

subroutine by_module(comm, rank, n, ok)
  use mpi
  implicit none
  integer, intent(in) :: comm, rank, n
  logical, intent(inout) :: ok
  integer :: i, k, ierr, mine(2), every(2, 0:n - 1), root(1)
  do i = 1, 20
    mine = [rank, i]
    call MPI_Allgather(mine, 2, MPI_INTEGER, every, 2, MPI_INTEGER, comm, ierr)
    ok = ok .and. all(every(1, :) == [(k, k = 0, n - 1)]) .and. all(every(2, :) == i)
    every(:, rank) = [rank * 2, i]
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, every, 2, &
                       MPI_INTEGER, comm, ierr)
    ok = ok .and. all(every(1, :) == [(2 * k, k = 0, n - 1)])
    root = rank * i
    call MPI_Bcast(root, 1, MPI_INTEGER, n - 1, comm, ierr)
    ok = ok .and. root(1) == (n - 1) * i
  end do
end subroutine

program fortran_names
  use mpi_f08
  implicit none
  integer :: rank, n, i, ints
  logical :: ok
  real :: x(4)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  ok = .true.
  do i = 1, 20
    x = rank + i
    call MPI_Allreduce(MPI_IN_PLACE, x, 4, MPI_REAL, MPI_MAX, MPI_COMM_WORLD)
    ok = ok .and. all(x == n - 1 + i)
    ints = rank
    if (rank == 0) then
      call MPI_Reduce(MPI_IN_PLACE, ints, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD)
      ok = ok .and. ints == n * (n - 1) / 2
    else
      call MPI_Reduce(ints, ints, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD)
    end if
  end do
  call by_include(MPI_COMM_WORLD%MPI_VAL, rank, n, ok)
  call by_module(MPI_COMM_WORLD%MPI_VAL, rank, n, ok)
  if (.not. ok) error stop "a result is wrong"
  call MPI_Finalize()
end program
