/*
 * A slow disk for any program that calls libc: fsync and fdatasync do their work and then sleep. How long is read from
 * the file that SLOW_DISK_FILE names, at each call, so that a test can change it while the program runs. The file holds
 * milliseconds, like "8" or "0.5"; a missing or empty file means no delay. A word after the number, as in "8 postgres",
 * names programs: others, whose names do not begin so, are not slow.
 *
 * Load it with LD_PRELOAD. It touches nothing but these two calls, and keeps errno as they left it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int (*sync_call)(int);

/* The program's name at its start: a server writes its title over it. */
static char program[32];

__attribute__((constructor)) static void remember_the_program(void)
{
    strncpy(program, program_invocation_short_name, sizeof program - 1);
}

static void be_slow(void)
{
    const char *path = getenv("SLOW_DISK_FILE");
    char text[32];
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0)
        return;
    text[length] = 0;
    char *name;
    double milliseconds = strtod(text, &name);
    name += strspn(name, " \n");
    if (strncmp(program, name, strcspn(name, " \n")) != 0)
        return;
    if (!(milliseconds > 0) || milliseconds > 60000)
        return;
    struct timespec left;
    left.tv_sec = (time_t)(milliseconds / 1000);
    left.tv_nsec = (long)((milliseconds - 1000.0 * (double)left.tv_sec) * 1e6);
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

static int slowly(const char *name, int fd)
{
    sync_call real = (sync_call)dlsym(RTLD_NEXT, name);
    int result = real(fd);
    int error = errno;
    be_slow();
    errno = error;
    return result;
}

int fsync(int fd)
{
    return slowly("fsync", fd);
}

int fdatasync(int fd)
{
    return slowly("fdatasync", fd);
}
