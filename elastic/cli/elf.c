/* The libraries that a program's file names as needed. Whatever is no 64-bit
 * ELF file of this machine's byte order names none. */
#include "elastic/cli/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct file {
    const char *at;
    size_t bytes;
} file;

/* NULL: it does not lie in the file. */
static const void *part(const file *f, size_t offset, size_t bytes)
{
    return offset <= f->bytes && bytes <= f->bytes - offset ? f->at + offset
                                                            : NULL;
}

static const Elf64_Phdr *segment(const file *f, const Elf64_Ehdr *head,
                                 unsigned type, size_t address)
{
    for (size_t i = 0; i < head->e_phnum; i++) {
        const Elf64_Phdr *one =
            part(f, head->e_phoff + i * sizeof *one, sizeof *one);
        if (one != NULL && one->p_type == type &&
            (type != PT_LOAD || (address >= one->p_vaddr &&
                                 address - one->p_vaddr < one->p_filesz)))
            return one;
    }
    return NULL;
}

/* NULL: it is none, or not whole. */
static const Elf64_Dyn *dynamic(const file *f, const Elf64_Ehdr *head,
                                size_t *n_p)
{
    const Elf64_Phdr *at = segment(f, head, PT_DYNAMIC, 0);
    const Elf64_Dyn *all =
        at != NULL ? part(f, at->p_offset, at->p_filesz) : NULL;
    *n_p = all != NULL ? at->p_filesz / sizeof *all : 0;
    return all;
}

/* The text of names, to the end of the file. */
static const char *names(const file *f, const Elf64_Ehdr *head,
                         const Elf64_Dyn *all, size_t n, size_t *bytes_p)
{
    for (size_t i = 0; i < n && all[i].d_tag != DT_NULL; i++) {
        if (all[i].d_tag != DT_STRTAB)
            continue;
        const size_t address = all[i].d_un.d_ptr;
        const Elf64_Phdr *in = segment(f, head, PT_LOAD, address);
        if (in == NULL)
            return NULL;
        const size_t offset = in->p_offset + (address - in->p_vaddr);
        *bytes_p = offset < f->bytes ? f->bytes - offset : 0;
        return part(f, offset, *bytes_p);
    }
    return NULL;
}

static rg__mpi_kind kind_of(const char *library)
{
    static const struct {
        const char *begins;
        rg__mpi_kind kind;
    } known[] = {{"libmpi.so", RG__MPI_OPEN},
                 {"libmpi_mpifh.so", RG__MPI_OPEN},
                 {"libmpich.so", RG__MPI_MPICH},
                 {"libmpichfort.so", RG__MPI_MPICH}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(library, known[i].begins, strlen(known[i].begins)) == 0)
            return known[i].kind;
    return RG__MPI_UNKNOWN;
}

static rg__mpi_kind look(const file *f)
{
    const Elf64_Ehdr *head = part(f, 0, sizeof *head);
    rg__mpi_kind found = RG__MPI_UNKNOWN;
    size_t n = 0, bytes = 0;
    if (head == NULL || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_ident[EI_CLASS] != ELFCLASS64 ||
        head->e_phentsize != sizeof(Elf64_Phdr))
        return RG__MPI_UNKNOWN;
    const Elf64_Dyn *all = dynamic(f, head, &n);
    const char *text = all != NULL ? names(f, head, all, n, &bytes) : NULL;
    for (size_t i = 0; text != NULL && i < n && all[i].d_tag != DT_NULL; i++) {
        const size_t at = all[i].d_un.d_val;
        if (all[i].d_tag != DT_NEEDED || at >= bytes ||
            memchr(text + at, '\0', bytes - at) == NULL)
            continue;
        const rg__mpi_kind kind = kind_of(text + at);
        if (kind != RG__MPI_UNKNOWN && found != RG__MPI_UNKNOWN &&
            kind != found)
            return RG__MPI_MIXED;
        found = kind != RG__MPI_UNKNOWN ? kind : found;
    }
    return found;
}

rg__mpi_kind rg__elf_mpi(const char *path)
{
    struct stat st;
    rg__mpi_kind kind = RG__MPI_UNKNOWN;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
        const size_t bytes = (size_t)st.st_size;
        void *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at != MAP_FAILED) {
            kind = look(&(file){at, bytes});
            munmap(at, bytes);
        }
    }
    if (fd >= 0)
        close(fd);
    return kind;
}
