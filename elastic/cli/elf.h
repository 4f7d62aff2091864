/* What a program's file says about its libraries. A file that is not 64-bit ELF
 * in this machine's byte order says nothing. */
#ifndef RG_ELASTIC_ELF_H
#define RG_ELASTIC_ELF_H

#include <stdbool.h>
#include <stddef.h>

/* Does the file itself name such a library as needed? */
bool rg__elf_needs(const char *path, bool (*is_such)(const char *library));

/* The loader that it asks for; false: none. */
bool rg__elf_loader(const char *path, char *loader, size_t bytes);

#endif
