/* Makes the n-th write, fsync, rename, read, mkdir or open of files below a folder, or the n-th fork or start of a
   thread, fail. Built and preloaded by tests/faults.py, which asks for it in this process (fault_set) or, with variables
   of the environment, in all processes of a script together: they count in a file that they share. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *operations[] = {"write", "fsync", "rename", "read", "mkdir", "open", "fork", "thread"};
enum { OPERATIONS = sizeof operations / sizeof *operations };
static struct Counter { int left, hits, calls[OPERATIONS]; } own = {-1}, *counter = &own;
static char operation[16], folder[4096];
static int error, skip_sync;

/* The n-th call of an operation fails with this error; 0: half of what is to be written or read is done. */
void fault_set(const char *name, const char *below, int n, int code) {
  snprintf(operation, sizeof operation, "%s", name);
  snprintf(folder, sizeof folder, "%s", below);
  counter->left = n, error = code, counter->hits = 0;
}

int fault_hits(void) { return counter->hits; }

__attribute__((constructor)) static void from_environment(void) {
  const char *name = getenv("FAULT"), *file = getenv("FAULT_COUNTER");
  skip_sync = getenv("FAULT_NO_SYNC") != NULL;
  if (!name || !file) return;
  int fd = open(file, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  struct Counter *shared = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (shared == MAP_FAILED) return;
  snprintf(operation, sizeof operation, "%s", name);
  snprintf(folder, sizeof folder, "%s", getenv("FAULT_FOLDER"));
  error = atoi(getenv("FAULT_CODE"));
  counter = shared;
}

static int counts(void) { return __atomic_load_n(&counter->left, __ATOMIC_RELAXED) >= 0; }

static int now(const char *name, const char *path) {
  if (!counts() || (*path == '/' && strncmp(path, folder, strlen(folder)))) return 0;
  for (int i = 0; i < OPERATIONS; i++)
    if (!strcmp(name, operations[i])) __atomic_fetch_add(&counter->calls[i], 1, __ATOMIC_RELAXED);
  if (strcmp(name, operation) || __atomic_fetch_sub(&counter->left, 1, __ATOMIC_RELAXED) != 0) return 0;
  __atomic_fetch_add(&counter->hits, 1, __ATOMIC_RELAXED);
  errno = error;
  return 1;
}

/* of a file that is open; what is no file (a pipe, a socket) is said to be outside every folder */
static const char *path_of(int fd) {
  static __thread char path[4096];
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  path[size > 0 ? size : 0] = 0;
  return *path == '/' ? path : "/";
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t size) {
  REAL(write);
  if (counts() && now("write", path_of(fd))) {
    if (error) return -1;
    size = size > 1 ? size / 2 : size;
  }
  return real(fd, data, size);
}

ssize_t read(int fd, void *data, size_t size) {
  REAL(read);
  if (counts() && now("read", path_of(fd))) {
    if (error) return -1;
    size = size > 1 ? size / 2 : size;
  }
  return real(fd, data, size);
}

int fsync(int fd) {
  REAL(fsync);
  if (skip_sync) return 0;
  return counts() && now("fsync", path_of(fd)) ? -1 : real(fd);
}

int rename(const char *from, const char *to) {
  REAL(rename);
  return now("rename", to) ? -1 : real(from, to);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags) {
  REAL(renameat2);
  return now("rename", to) ? -1 : real(from_fd, from, to_fd, to, flags);
}

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  return now("mkdir", path) ? -1 : real(path, mode);
}

pid_t fork(void) {
  REAL(fork);
  return now("fork", "") ? -1 : real();
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
  REAL(pthread_create);
  return now("thread", "") ? EAGAIN : real(thread, attributes, start, argument);
}

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    REAL(name); \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = va_arg(more, mode_t); \
    va_end(more); \
    return now("open", path) ? -1 : real(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
  int name(int at, const char *path, int flags, ...) { \
    REAL(name); \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = va_arg(more, mode_t); \
    va_end(more); \
    return now("open", path) ? -1 : real(at, path, flags, mode); \
  }
OPENAT(openat)
OPENAT(openat64)
