/*
 * Slow reads for any program that calls libc, a part of the library of slow_disk.c: a pread that does not begin where the
 * thread's last one has ended is a seek, does its work and then sleeps. How long is read from the file that SLOW_READS_FILE
 * names, at each such call. The file holds milliseconds; a missing or empty file means no delay.
 *
 * The disk has one arm: the delays of all processes follow each other.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

typedef ssize_t (*read_call)(int, void *, size_t, off64_t);

static void seek_slowly(void)
{
    const char *path = getenv("SLOW_READS_FILE");
    char text[32];
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    ssize_t length = read(file, text, sizeof text - 1);
    text[length > 0 ? length : 0] = 0;
    double milliseconds = strtod(text, NULL);
    if (milliseconds > 0 && milliseconds <= 60000 && flock(file, LOCK_EX) == 0) {
        struct timespec left;
        left.tv_sec = (time_t)(milliseconds / 1000);
        left.tv_nsec = (long)((milliseconds - 1000.0 * (double)left.tv_sec) * 1e6);
        while (nanosleep(&left, &left) != 0 && errno == EINTR)
            ;
    }
    close(file);
}

static ssize_t read_slowly(const char *name, int fd, void *into, size_t length, off64_t from)
{
    static __thread int last_fd = -1;
    static __thread off64_t last_end;
    read_call real = (read_call)dlsym(RTLD_NEXT, name);
    ssize_t result = real(fd, into, length, from);
    int error = errno;
    if (fd != last_fd || from != last_end)
        seek_slowly();
    last_fd = fd;
    last_end = from + (result > 0 ? result : 0);
    errno = error;
    return result;
}

ssize_t pread(int fd, void *into, size_t length, off_t from)
{
    return read_slowly("pread", fd, into, length, from);
}

ssize_t pread64(int fd, void *into, size_t length, off64_t from)
{
    return read_slowly("pread64", fd, into, length, from);
}
