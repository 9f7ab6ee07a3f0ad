/* A disk that fails: loaded before libc, it counts what a process does to files below one folder
 * and lets the n-th of these calls fail. Named by the environment:
 *   FAULT_NAME   the folder's name; a call counts if it stands in the path
 *   FAULT_AT     which call fails; 0 is none
 *   FAULT_ERRNO  with which error
 *   FAULT_STAYS  1: all later calls fail too, as on a full disk
 *   FAULT_COUNT  a file that gets the number of calls at the end
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *name;
static long at;
static int error_number = EIO;
static int stays;
static atomic_long calls;

#define REAL(fn) ((__typeof__(&fn))real(#fn))

static void *real(const char *fn) { return dlsym(RTLD_NEXT, fn); }

__attribute__((constructor)) static void begin(void) {
    const char *text;
    name = getenv("FAULT_NAME");
    if ((text = getenv("FAULT_AT"))) at = atol(text);
    if ((text = getenv("FAULT_ERRNO"))) error_number = atoi(text);
    if ((text = getenv("FAULT_STAYS"))) stays = atoi(text);
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("FAULT_COUNT");
    FILE *out = path ? fopen(path, "w") : NULL;
    if (out) {
        fprintf(out, "%ld\n", atomic_load(&calls));
        fclose(out);
    }
}

static int path_counts(const char *path) { return name && path && strstr(path, name) != NULL; }

static int file_counts(int file) {
    char link[64], path[4096];
    if (!name || file < 3) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return path[0] == '/' && path_counts(path);
}

/* Counts one call; true if it fails. */
static int fails(void) {
    long n = atomic_fetch_add(&calls, 1) + 1;
    if (at == 0 || (stays ? n < at : n != at)) return 0;
    errno = error_number;
    return 1;
}

ssize_t write(int file, const void *bytes, size_t count) {
    if (file_counts(file) && fails()) {
        /* A disk that fills up takes the beginning. */
        if (error_number == ENOSPC && count > 1 && atomic_load(&calls) == at)
            return REAL(write)(file, bytes, count / 2);
        return -1;
    }
    return REAL(write)(file, bytes, count);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    if (file_counts(file) && fails()) return -1;
    return REAL(writev)(file, parts, count);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
    if (file_counts(file) && fails()) return -1;
    return REAL(pwrite)(file, bytes, count, offset);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t offset) {
    if (file_counts(file) && fails()) return -1;
    return REAL(pwrite64)(file, bytes, count, offset);
}

int fsync(int file) {
    if (file_counts(file) && fails()) return -1;
    return REAL(fsync)(file);
}

int fdatasync(int file) {
    if (file_counts(file) && fails()) return -1;
    return REAL(fdatasync)(file);
}

int ftruncate(int file, off_t length) {
    if (file_counts(file) && fails()) return -1;
    return REAL(ftruncate)(file, length);
}

int ftruncate64(int file, off64_t length) {
    if (file_counts(file) && fails()) return -1;
    return REAL(ftruncate64)(file, length);
}

int rename(const char *from, const char *to) {
    if (path_counts(to) && fails()) return -1;
    return REAL(rename)(from, to);
}

int unlink(const char *path) {
    if (path_counts(path) && fails()) return -1;
    return REAL(unlink)(path);
}

int mkdir(const char *path, mode_t mode) {
    if (path_counts(path) && fails()) return -1;
    return REAL(mkdir)(path, mode);
}

/* Only opening to write: a disk that cannot be read is another story. */
#define OPENS(fn, head, call)                                          \
    {                                                                  \
        mode_t mode = 0;                                               \
        if (flags & (O_CREAT | __O_TMPFILE)) {                         \
            va_list rest;                                              \
            va_start(rest, flags);                                     \
            mode = va_arg(rest, mode_t);                               \
            va_end(rest);                                              \
        }                                                              \
        if ((flags & (O_WRONLY | O_RDWR | O_CREAT)) && path_counts(path) && fails()) \
            return -1;                                                 \
        return REAL(fn) call;                                          \
    }

int open(const char *path, int flags, ...) OPENS(open, , (path, flags, mode))
int open64(const char *path, int flags, ...) OPENS(open64, , (path, flags, mode))
int openat(int folder, const char *path, int flags, ...) OPENS(openat, , (folder, path, flags, mode))
int openat64(int folder, const char *path, int flags, ...)
    OPENS(openat64, , (folder, path, flags, mode))
