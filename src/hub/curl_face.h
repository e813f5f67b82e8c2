/* curl_face.h - the part of libcurl's interface that is used, declared here: its numbers have been the same since
 * libcurl.so.4, and what is loaded when it is needed makes neither building nor starting depend on it. */
#pragma once
#include <stddef.h>

typedef struct CURL CURL;
struct curl_slist;
typedef int CURLcode;

enum { CURL_GLOBAL_DEFAULT = 3, CURL_ERROR_SIZE = 256, CURLINFO_REDIRECT_URL = 0x100000 + 31 };

enum {
    CURLE_OK = 0,
    CURLE_UNSUPPORTED_PROTOCOL = 1,
    CURLE_URL_MALFORMAT = 3,
    CURLE_OUT_OF_MEMORY = 27,
    CURLE_ABORTED_BY_CALLBACK = 42,
    CURLE_PEER_FAILED_VERIFICATION = 60,
    CURLE_SSL_CACERT_BADFILE = 77
};

/* Numbers are long, above 10000 pointers, above 20000 functions. */
enum {
    CURLOPT_NOPROGRESS = 43,
    CURLOPT_NOBODY = 44,
    CURLOPT_CONNECTTIMEOUT = 78,
    CURLOPT_HTTPGET = 80,
    CURLOPT_BUFFERSIZE = 98,
    CURLOPT_NOSIGNAL = 99,
    CURLOPT_WRITEDATA = 10001,
    CURLOPT_URL = 10002,
    CURLOPT_RANGE = 10007,
    CURLOPT_ERRORBUFFER = 10010,
    CURLOPT_USERAGENT = 10018,
    CURLOPT_HTTPHEADER = 10023,
    CURLOPT_HEADERDATA = 10029,
    CURLOPT_XFERINFODATA = 10057,
    CURLOPT_WRITEFUNCTION = 20011,
    CURLOPT_HEADERFUNCTION = 20079,
    CURLOPT_XFERINFOFUNCTION = 20219
};

/* X(result, what it is called here, parameters); libcurl's names have "curl_" in front. */
#define CURL_LIST(X)                                                                                                   \
    X(CURLcode, global_init, (long flags))                                                                             \
    X(CURL *, easy_init, (void))                                                                                       \
    X(CURLcode, easy_setopt, (CURL * c, int option, ...))                                                              \
    X(CURLcode, easy_perform, (CURL * c))                                                                              \
    X(CURLcode, easy_getinfo, (CURL * c, int info, ...))                                                               \
    X(const char *, easy_strerror, (CURLcode code))                                                                    \
    X(void, easy_cleanup, (CURL * c))                                                                                  \
    X(struct curl_slist *, slist_append, (struct curl_slist * l, const char *text))                                    \
    X(void, slist_free_all, (struct curl_slist * l))
