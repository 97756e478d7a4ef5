/* Files as the content of resources: read while they are sent, written while
 * they come in. All calls but the makers run on worker threads.
 */
#ifndef NM_IO_FILES_H
#define NM_IO_FILES_H

#include "stack/content.h"

/* |size| bytes of the file |fd| from |offset| on, read at given positions, so
 * that the descriptor's own position does not move. |fd| is duplicated. NULL
 * with a negated errno in |error|. */
nm_source *nm_file_source(const nm_mem *mem, int fd, uint64_t offset,
                          uint64_t size, int *error);

/* The longest file name that is made, without the folder. */
#define NM_FILE_NAME_MAX 200

/* Stores resources in |folder|, which must exist. While one comes in it is
 * ".HEX.part" there, 16 bytes of its hash in hex, or, when it may be resumed
 * later (|resume|, and the sender reads notes), a partial (partials.h), which
 * stays when the transfer is interrupted. When it is verified the file is
 * synced, gets its name, and the folder is synced. The name is |name|, if that
 * is not empty, and replaces what had it; else the last part of the "name" in
 * the metadata, without leading dots and with '_' for control bytes, else the
 * hash in hex; a name that is taken gets "-1", "-2" and so on before its
 * suffix. Permissions are the usual ones (0666 less the umask). What does not
 * complete, and is not kept, is removed; what is left by a crash is the ".part"
 * alone.
 *
 * NULL with a negated errno in |error| (-EINVAL for a |name| with '/' or NUL,
 * or longer than NM_FILE_NAME_MAX). May be called on any thread. */
nm_shelf *nm_file_shelf(const nm_mem *mem, const char *folder, nm_span name,
                        bool resume, int *error);

#endif
