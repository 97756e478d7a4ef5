/* SHA-256 over a vector type, one message per element. Not an ordinary header:
 * each instruction set defines the macros below and includes it once.
 *
 *   VEC, LANES, TARGET            type, elements, function attributes
 *   ADD SHR ROR XOR3 CH MAJ SET1  element-wise operations
 *   LOAD(p), STORE(p, v)          from and to LANES aligned words
 *   IOTA                          0, 1, 2, ...
 *   BELOW_MASK(v, bits)           bit i set when v[i] <= bits, unsigned
 *   LOAD_BLOCK(w, block, offset)  sixteen words of each lane's block
 */
#ifndef VEC
#error "sha256_wide.h needs the macros of one instruction set"
#endif

#define BIG0(x) XOR3(ROR(x, 2), ROR(x, 13), ROR(x, 22))
#define BIG1(x) XOR3(ROR(x, 6), ROR(x, 11), ROR(x, 25))
#define SMALL0(x) XOR3(ROR(x, 7), ROR(x, 18), SHR(x, 3))
#define SMALL1(x) XOR3(ROR(x, 17), ROR(x, 19), SHR(x, 10))

/* One round with |kw| = k[t] + w[t]. */
#define ROUND(a, b, c, d, e, f, g, h, kw)                                      \
  do {                                                                         \
    VEC t1 = ADD(ADD(h, kw), ADD(BIG1(e), CH(e, f, g)));                       \
    d = ADD(d, t1);                                                            \
    h = ADD(t1, ADD(BIG0(a), MAJ(a, b, c)));                                   \
  } while (0)

/* Round |i| of a run that begins with the state in order; KW gives k + w. */
#define ROUND_0(KW, i) ROUND(a, b, c, d, e, f, g, h, KW(i))
#define ROUND_1(KW, i) ROUND(h, a, b, c, d, e, f, g, KW(i))
#define ROUND_2(KW, i) ROUND(g, h, a, b, c, d, e, f, KW(i))
#define ROUND_3(KW, i) ROUND(f, g, h, a, b, c, d, e, KW(i))
#define ROUND_4(KW, i) ROUND(e, f, g, h, a, b, c, d, KW(i))
#define ROUND_5(KW, i) ROUND(d, e, f, g, h, a, b, c, KW(i))
#define ROUND_6(KW, i) ROUND(c, d, e, f, g, h, a, b, KW(i))
#define ROUND_7(KW, i) ROUND(b, c, d, e, f, g, h, a, KW(i))
#define EIGHT_ROUNDS(KW, i)                                                    \
  do {                                                                         \
    ROUND_0(KW, (i) + 0);                                                      \
    ROUND_1(KW, (i) + 1);                                                      \
    ROUND_2(KW, (i) + 2);                                                      \
    ROUND_3(KW, (i) + 3);                                                      \
    ROUND_4(KW, (i) + 4);                                                      \
    ROUND_5(KW, (i) + 5);                                                      \
    ROUND_6(KW, (i) + 6);                                                      \
    ROUND_7(KW, (i) + 7);                                                      \
  } while (0)

/* k + w for a word that is there, and for one that is computed now. Words live
 * in a ring of sixteen. */
#define K(i) SET1(nm_sha256_k[i])
#define GIVEN(i) ADD(K(i), w[(i)&15])
#define NEXT(i)                                                                \
  ADD(K(i),                                                                    \
      (w[(i)&15] = ADD(ADD(w[(i)&15], SMALL0(w[((i) + 1) & 15])),              \
                       ADD(w[((i) + 9) & 15], SMALL1(w[((i) + 14) & 15])))))

/* One block for every lane. */
TARGET static inline void wide_block(VEC s[8], VEC w[16]) {
  VEC a = s[0], b = s[1], c = s[2], d = s[3];
  VEC e = s[4], f = s[5], g = s[6], h = s[7];
  EIGHT_ROUNDS(GIVEN, 0);
  EIGHT_ROUNDS(GIVEN, 8);
  for (int t = 16; t < 64; t += 16) {
    EIGHT_ROUNDS(NEXT, t);
    EIGHT_ROUNDS(NEXT, t + 8);
  }
  s[0] = ADD(s[0], a);
  s[1] = ADD(s[1], b);
  s[2] = ADD(s[2], c);
  s[3] = ADD(s[3], d);
  s[4] = ADD(s[4], e);
  s[5] = ADD(s[5], f);
  s[6] = ADD(s[6], g);
  s[7] = ADD(s[7], h);
}

TARGET static void wide_words(uint32_t *state, uint32_t *words) {
  VEC s[8];
  VEC w[16];
  for (size_t i = 0; i < 8; i++) {
    s[i] = LOAD(state + i * LANES);
  }
  for (size_t i = 0; i < 16; i++) {
    w[i] = LOAD(words + i * LANES);
  }
  wide_block(s, w);
  for (size_t i = 0; i < 8; i++) {
    STORE(state + i * LANES, s[i]);
  }
}

TARGET static void wide_bytes(uint32_t *state, const uint8_t *const *block,
                              size_t count) {
  VEC s[8];
  VEC w[16];
  for (size_t i = 0; i < 8; i++) {
    s[i] = LOAD(state + i * LANES);
  }
  for (size_t n = 0; n < count; n++) {
    LOAD_BLOCK(w, block, n * NM_SHA256_BLOCK);
    wide_block(s, w);
  }
  for (size_t i = 0; i < 8; i++) {
    STORE(state + i * LANES, s[i]);
  }
}

/* k + w of the rounds whose word is the same for all candidates, and of those
 * to which only some terms vary (see nm_scan_plan). */
#define FIXED(i) SET1(p->kw[i])
#define PART(i) SET1(p->part[i])
#define SET_W(i, v) ADD(K(i), (w[(i)&15] = (v)))
#define W(i) w[(i)&15]
#define VARY_22(i) SET_W(i, ADD(PART(i), SMALL0(first)))
#define VARY_23(i) SET_W(i, ADD(PART(i), first))
#define VARY_24(i) SET_W(i, ADD(PART(i), SMALL1(W((i)-2))))
#define VARY_29(i) SET_W(i, ADD(ADD(PART(i), W((i)-7)), SMALL1(W((i)-2))))
#define VARY_37(i)                                                             \
  SET_W(i,                                                                     \
        ADD(ADD(PART(i), SMALL0(W((i)-15))), ADD(W((i)-7), SMALL1(W((i)-2)))))

/* The first word of each lane's digest, less plan->base, for words[7] =
 * |first|. */
TARGET static inline VEC scan_block(const nm_scan_plan *p, VEC first) {
  VEC w[16];
  VEC a = ADD(SET1(p->s[0]), first), b = SET1(p->s[1]);
  VEC c = SET1(p->s[2]), d = SET1(p->s[3]);
  VEC e = ADD(SET1(p->s[4]), first), f = SET1(p->s[5]);
  VEC g = SET1(p->s[6]), h = SET1(p->s[7]);
  EIGHT_ROUNDS(FIXED, 8);
  ROUND_0(FIXED, 16);
  ROUND_1(FIXED, 17);
  ROUND_2(FIXED, 18);
  ROUND_3(FIXED, 19);
  ROUND_4(FIXED, 20);
  ROUND_5(FIXED, 21);
  ROUND_6(VARY_22, 22);
  ROUND_7(VARY_23, 23);
  ROUND_0(VARY_24, 24);
  ROUND_1(VARY_24, 25);
  ROUND_2(VARY_24, 26);
  ROUND_3(VARY_24, 27);
  ROUND_4(VARY_24, 28);
  ROUND_5(VARY_29, 29);
  ROUND_6(VARY_29, 30);
  ROUND_7(VARY_29, 31);
  ROUND_0(VARY_29, 32);
  ROUND_1(VARY_29, 33);
  ROUND_2(VARY_29, 34);
  ROUND_3(VARY_29, 35);
  ROUND_4(VARY_29, 36);
  ROUND_5(VARY_37, 37);
  ROUND_6(NEXT, 38);
  ROUND_7(NEXT, 39);
  EIGHT_ROUNDS(NEXT, 40);
  EIGHT_ROUNDS(NEXT, 48);
  EIGHT_ROUNDS(NEXT, 56);
  return a;
}

TARGET static uint32_t wide_scan(const nm_sha256_scan *scan, uint32_t first,
                                 uint32_t count) {
  nm_scan_plan plan;
  nm_scan_plan_make(&plan, scan);
  const VEC base = SET1(plan.base);
  for (uint32_t done = 0; done < count; done += LANES) {
    VEC a = scan_block(&plan, ADD(SET1(first + done), IOTA));
    uint32_t hits = BELOW_MASK(ADD(a, base), plan.limit);
    if (hits != 0) {
      uint32_t hit = done + (uint32_t)__builtin_ctz(hits);
      /* The last vector may reach beyond the range. */
      return hit < count ? hit : count;
    }
    if (count - done <= LANES) {
      break;
    }
  }
  return count;
}
