/* Paper messages: lxmf_data as a URI for a QR code (LXMF 12). */
#ifndef NM_WIRE_LXMF_PAPER_H
#define NM_WIRE_LXMF_PAPER_H

#include "base/cursor.h"
#include "wire/lxmf_constants.h"

/* Characters of "lxm://" || base64url(|data_len| bytes) without padding. */
size_t nm_lxmf_uri_size(size_t data_len);

/* Writes the URI of |data|. NM_E(LENGTH) below 112 bytes, NM_E(TOO_LARGE)
 * above 2210 or when it does not fit. */
int nm_lxmf_uri_encode(nm_span data, nm_writer *w);

/* Most bytes that a URI of |uri_len| characters decodes to. */
size_t nm_lxmf_uri_data_bound(size_t uri_len);

/* Reads a URI: the scheme in either case, "/" characters in the remainder are
 * deleted, padding may be there or missing. How much comes out is bounded by
 * |w| alone; what a sender may make is bounded above. Field "uri": VALUE for
 * another scheme, another character or padding that is not at the end, LENGTH
 * when the number of characters cannot be or the data are below 112 bytes,
 * TOO_LARGE when |w| is full. */
int nm_lxmf_uri_decode(nm_span uri, nm_writer *w, nm_fault *fault);

#endif
