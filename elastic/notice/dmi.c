/* The firmware names a machine's cloud, without a network. */
#include "elastic/notice/notice_parts.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KERNELS "/sys/class/dmi/id"

typedef struct sign {
    const char *file, *begins, *cloud;
} sign;

static const sign signs[] = {
    {"sys_vendor", "Amazon EC2", "aws"},
    {"bios_vendor", "Amazon EC2", "aws"},
    {"product_version", "4.11.amazon", "aws"}, /* of Xen */
    {"product_name", "Google Compute Engine", "gcp"},
    /* Microsoft's tag for its cloud: other machines have its vendor, too */
    {"chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", "azure"},
};

static bool does_begin(const char *folder, const sign *s)
{
    char path[4096], text[128] = "";
    snprintf(path, sizeof path, "%s/%s", folder, s->file);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 && strncmp(text, s->begins, strlen(s->begins)) == 0;
}

const char *rg__dmi_cloud(const char *folder)
{
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (does_begin(folder != NULL ? folder : KERNELS, &signs[i]))
            return signs[i].cloud;
    return NULL;
}
