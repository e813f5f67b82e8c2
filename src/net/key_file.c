/* key_file.c - see key_file.h. */
#include "net/key_file.h"

#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIGITS = 2 * KEY_BYTES, TEXT_MAX = DIGITS + 8 };

static int digit_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static int parse_key(uint8_t key[KEY_BYTES], const char *text, size_t n, const char *path, err *e)
{
    while (n && strchr(" \t\r\n", text[n - 1])) n--;
    size_t good = 0;
    while (good < n && digit_value(text[good]) >= 0) good++;
    if (good != n)
        return err_set(e, ERR_FORMAT, "%s: byte %zu is no hex digit: a key is %d of them", path, good + 1, DIGITS);
    if (n != DIGITS)
        return err_set(e, ERR_FORMAT,
                       "%s: %s%zu hex digits: a key is %d of them (`inferflow node --new-key F` makes one)", path,
                       n == TEXT_MAX ? "more than " : "", n == TEXT_MAX ? n - 1 : n, DIGITS);
    for (int i = 0; i < KEY_BYTES; i++)
        key[i] = (uint8_t)(digit_value(text[2 * i]) << 4 | digit_value(text[2 * i + 1]));
    return OK;
}

int key_file_read(uint8_t key[KEY_BYTES], const char *path, err *e)
{
    char text[TEXT_MAX];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return err_set(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s: %s", path, strerror(errno));
    int rc = OK;
    ssize_t n = 0;
    if (fstat(fd, &st) != 0) rc = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode)) rc = err_set(e, ERR_FORMAT, "%s: not a regular file", path);
    else if (st.st_mode & 077) rc = err_set(e, ERR_FORMAT, "%s: others may read this key: chmod 600 %s", path, path);
    else if ((n = read(fd, text, sizeof text)) < 0) rc = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    close(fd);
    span digits = span_of(text, rc ? 0 : (size_t)n);
    if (!rc) rc = utf8_unmark(&digits, path, e);
    return rc ? rc : parse_key(key, (const char *)digits.p, digits.n, path, e);
}

int key_file_write(const char *path, err *e)
{
    uint8_t key[KEY_BYTES];
    char text[DIGITS + 1];
    if (getrandom(key, sizeof key, 0) != (ssize_t)sizeof key)
        return err_set(e, ERR_IO, "no random numbers: %s", strerror(errno));
    for (int i = 0; i < DIGITS; i++) text[i] = "0123456789abcdef"[key[i / 2] >> (i % 2 ? 0 : 4) & 15];
    text[DIGITS] = '\n';
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(e, ERR_IO, "%s: %s%s", path, strerror(errno), errno == EEXIST ? ": a key is not replaced" : "");
    int rc = OK;
    if (write(fd, text, sizeof text) != (ssize_t)sizeof text || fsync(fd) != 0)
        rc = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    close(fd);
    if (rc) unlink(path);
    return rc;
}
