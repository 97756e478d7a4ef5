/* Start-up of the libraries behind this room.
 */
#ifndef NM_CRYPTO_INIT_H
#define NM_CRYPTO_INIT_H

/* Lets libsodium choose its code for this CPU and open its source of
 * randomness. To be called once before anything else of this room, from any
 * thread; calling it again is harmless. Without it the results are the same and
 * the curves slower. 0 or NM_E(LIBRARY). */
int nm_crypto_init(void);

#endif
