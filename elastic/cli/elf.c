/* The dynamic part of a program's file. */
#include "elastic/cli/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct file {
    const char *at;
    size_t bytes;
} file;

/* NULL: it is not inside of the file. */
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

/* NULL: not an ELF file, or not whole. */
static const Elf64_Dyn *dynamic(const file *f, const Elf64_Ehdr *head,
                                size_t *n_p)
{
    const Elf64_Phdr *at = segment(f, head, PT_DYNAMIC, 0);
    const Elf64_Dyn *all =
        at != NULL ? part(f, at->p_offset, at->p_filesz) : NULL;
    *n_p = all != NULL ? at->p_filesz / sizeof *all : 0;
    return all;
}

/* The table of names; it may reach to the end of the file. */
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

static const Elf64_Ehdr *head_of(const file *f)
{
    const Elf64_Ehdr *head = part(f, 0, sizeof *head);
    return head != NULL && memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 &&
                   head->e_ident[EI_CLASS] == ELFCLASS64 &&
                   head->e_phentsize == sizeof(Elf64_Phdr)
               ? head
               : NULL;
}

static bool needs(const file *f, bool (*is_such)(const char *library))
{
    const Elf64_Ehdr *head = head_of(f);
    size_t n = 0, bytes = 0;
    const Elf64_Dyn *all = head != NULL ? dynamic(f, head, &n) : NULL;
    const char *text = all != NULL ? names(f, head, all, n, &bytes) : NULL;
    for (size_t i = 0; text != NULL && i < n && all[i].d_tag != DT_NULL; i++) {
        const size_t at = all[i].d_un.d_val;
        if (all[i].d_tag == DT_NEEDED && at < bytes &&
            memchr(text + at, '\0', bytes - at) != NULL && is_such(text + at))
            return true;
    }
    return false;
}

static bool copy_loader(const file *f, char *loader, size_t room)
{
    const Elf64_Ehdr *head = head_of(f);
    const Elf64_Phdr *at = head != NULL ? segment(f, head, PT_INTERP, 0) : NULL;
    const char *text = at != NULL ? part(f, at->p_offset, at->p_filesz) : NULL;
    if (text == NULL || memchr(text, '\0', at->p_filesz) == NULL ||
        strlen(text) >= room)
        return false;
    strcpy(loader, text);
    return true;
}

/* Unmap it when it is not needed any more. */
static bool map(const char *path, file *f)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *at = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
        f->bytes = (size_t)st.st_size;
        at = mmap(NULL, f->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        f->at = at;
    }
    if (fd >= 0)
        close(fd);
    return at != MAP_FAILED;
}

static void unmap(file *f)
{
    munmap((void *)(uintptr_t)f->at, f->bytes);
}

bool rg__elf_needs(const char *path, bool (*is_such)(const char *library))
{
    file f;
    if (!map(path, &f))
        return false;
    const bool is_needed = needs(&f, is_such);
    unmap(&f);
    return is_needed;
}

bool rg__elf_loader(const char *path, char *loader, size_t bytes)
{
    file f;
    if (!map(path, &f))
        return false;
    const bool has_one = copy_loader(&f, loader, bytes);
    unmap(&f);
    return has_one;
}
