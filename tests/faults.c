/* Makes the n-th write, fsync, rename, read, mkdir or open below a folder fail. Built and preloaded by tests/faults.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char operation[16], folder[4096];
static int left = -1, error, hits;

/* The n-th call of an operation fails with this error; 0: half of what is to be written or read is done. */
void fault_set(const char *name, const char *below, int n, int code) {
  snprintf(operation, sizeof operation, "%s", name);
  snprintf(folder, sizeof folder, "%s", below);
  left = n, error = code, hits = 0;
}

int fault_hits(void) { return hits; }

static int now(const char *name, const char *path) {
  if (left < 0 || strcmp(name, operation) || (*path == '/' && strncmp(path, folder, strlen(folder)))) return 0;
  if (left-- != 0) return 0;
  hits++;
  errno = error;
  return 1;
}

static const char *path_of(int fd) {
  static __thread char path[4096];
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  path[size > 0 ? size : 0] = 0;
  return path;
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t size) {
  REAL(write);
  if (left >= 0 && now("write", path_of(fd))) {
    if (error) return -1;
    size = size > 1 ? size / 2 : size;
  }
  return real(fd, data, size);
}

ssize_t read(int fd, void *data, size_t size) {
  REAL(read);
  if (left >= 0 && now("read", path_of(fd))) {
    if (error) return -1;
    size = size > 1 ? size / 2 : size;
  }
  return real(fd, data, size);
}

int fsync(int fd) {
  REAL(fsync);
  return now("fsync", path_of(fd)) ? -1 : real(fd);
}

int rename(const char *from, const char *to) {
  REAL(rename);
  return now("rename", to) ? -1 : real(from, to);
}

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  return now("mkdir", path) ? -1 : real(path, mode);
}

int open(const char *path, int flags, ...) {
  REAL(open);
  va_list more;
  va_start(more, flags);
  mode_t mode = va_arg(more, mode_t);
  va_end(more);
  return now("open", path) ? -1 : real(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  REAL(open64);
  va_list more;
  va_start(more, flags);
  mode_t mode = va_arg(more, mode_t);
  va_end(more);
  return now("open", path) ? -1 : real(path, flags, mode);
}
