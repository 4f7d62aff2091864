#include "tests/mpi/mpi_check.h"

static void add(shape *s, const char *name, int first, int step, int n)
{
    s->name = name;
    s->n = n;
    for (int i = 0; i < n; i++)
        s->rank[i] = first + i * step;
}

int shapes_of(int size, shape *shapes)
{
    int n = 0;
    add(&shapes[n++], "all", 0, 1, size);
    add(&shapes[n++], "reversed", size - 1, -1, size);
    add(&shapes[n++], "last", size - 1, 1, 1);
    if (size < 2)
        return n;
    add(&shapes[n++], "even", 0, 2, (size + 1) / 2);
    add(&shapes[n++], "odd", 1, 2, size / 2);
    add(&shapes[n++], "lower", 0, 1, size - 1);
    add(&shapes[n++], "upper", size - 1, -1, size - 1); /* overlaps */
    return n;
}

#if defined(__SANITIZE_ADDRESS__)
/* Modules of MPI stay loaded, so that what they leak is known by their names
 * (lsan.supp). */
__attribute__((visibility("default"))) int dlclose(void *handle);
int dlclose(void *handle)
{
    (void)handle;
    return 0;
}
#endif
