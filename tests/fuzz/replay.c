/* A target without libFuzzer: every file of the folders that it is given, once.
 * So the seeds, and the inputs that once crashed it, are tried in every build
 * and by every compiler. */
#include <dirent.h>
#include <string.h>

#include "tests/check.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void replay(const char *path)
{
    FILE *file = fopen(path, "re");
    CHECK(file != NULL);
    CHECK(fseek(file, 0, SEEK_END) == 0);
    const long n = ftell(file);
    CHECK(n >= 0);
    rewind(file);
    uint8_t *bytes = malloc(n > 0 ? (size_t)n : 1);
    CHECK(bytes != NULL);
    CHECK_EQ(fread(bytes, 1, (size_t)n, file), n);
    fclose(file);
    LLVMFuzzerTestOneInput(bytes, (size_t)n);
    free(bytes);
}

static int replay_folder(const char *folder)
{
    char path[4096];
    int n = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        CHECK_FAIL("%s is no folder of seeds", folder);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        printf("%s\n", e->d_name); /* the last one is the culprit */
        fflush(stdout);
        replay(path);
        n++;
    }
    closedir(dir);
    return n;
}

int main(int argc, char **argv)
{
    int n = 0;
    LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++)
        n += replay_folder(argv[i]);
    CHECK(n > 0);
    return 0;
}
