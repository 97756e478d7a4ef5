/* What the module runs on: libraries and the CPU. */
#include "crypto/cpu.h"
#include "crypto/init.h"
#include "py/state.h"

#include <bzlib.h>
#include <openssl/crypto.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <zstd.h>

#define LIBSODIUM_MIN "1.0.18"
#define LIBCRYPTO_MIN 0x30000000ul
#define LIBZSTD_MIN 10400u /* 1.4.0 */
#define SQLITE_MIN 3034000

/* The version of bzip2 without its date. */
static PyObject *bzip2_version(void) {
  const char *full = BZ2_bzlibVersion();
  return PyUnicode_FromStringAndSize(full, (Py_ssize_t)strcspn(full, ","));
}

PyDoc_STRVAR(library_versions_doc,
             "library_versions($module, /)\n--\n\n"
             "The versions of the libraries as they are loaded: a dict with "
             "the keys\n'libsodium', 'libcrypto', 'bzip2', 'libzstd' and "
             "'sqlite3'.");

static PyObject *core_library_versions(PyObject *Py_UNUSED(module),
                                       PyObject *Py_UNUSED(unused)) {
  return Py_BuildValue("{s:s,s:s,s:N,s:s,s:s}", "libsodium",
                       sodium_version_string(), "libcrypto",
                       OpenSSL_version(OPENSSL_VERSION_STRING), "bzip2",
                       bzip2_version(), "libzstd", ZSTD_versionString(),
                       "sqlite3", sqlite3_libversion());
}

PyDoc_STRVAR(cpu_features_doc,
             "cpu_features($module, /)\n--\n\n"
             "The instruction sets of this CPU that netmesh has code for: some "
             "of 'sha_ni',\n'avx2' and 'avx512', as a tuple.");

static PyObject *core_cpu_features(PyObject *Py_UNUSED(module),
                                   PyObject *Py_UNUSED(unused)) {
  nm_cpu_features cpu = nm_cpu_detect();
  const struct {
    bool present;
    const char *name;
  } all[] = {
      {cpu.sha_ni, "sha_ni"}, {cpu.avx2, "avx2"}, {cpu.avx512, "avx512"}};
  PyObject *names = PyList_New(0);
  for (size_t i = 0; i < sizeof all / sizeof all[0] && names != NULL; i++) {
    if (!all[i].present) {
      continue;
    }
    PyObject *name = PyUnicode_FromString(all[i].name);
    if (name == NULL || PyList_Append(names, name) < 0) {
      Py_CLEAR(names);
    }
    Py_XDECREF(name);
  }
  PyObject *result = names != NULL ? PyList_AsTuple(names) : NULL;
  Py_XDECREF(names);
  return result;
}

/* Whether version |have| ("1.0.18") is |want| or newer. */
static bool version_reaches(const char *have, const char *want) {
  int a[3] = {0};
  int b[3] = {0};
  (void)sscanf(have, "%d.%d.%d", &a[0], &a[1], &a[2]);
  (void)sscanf(want, "%d.%d.%d", &b[0], &b[1], &b[2]);
  for (size_t i = 0; i < 3; i++) {
    if (a[i] != b[i]) {
      return a[i] > b[i];
    }
  }
  return true;
}

/* ImportError unless the libraries found at run time can do the work. */
static int check_libraries(void) {
  if (!version_reaches(sodium_version_string(), LIBSODIUM_MIN)) {
    PyErr_Format(PyExc_ImportError,
                 "netmesh needs libsodium " LIBSODIUM_MIN
                 " or newer and found %s",
                 sodium_version_string());
    return -1;
  }
  if (nm_crypto_init() < 0) {
    PyErr_SetString(PyExc_ImportError, "libsodium cannot be initialised");
    return -1;
  }
  if (OpenSSL_version_num() < LIBCRYPTO_MIN) {
    PyErr_Format(PyExc_ImportError,
                 "netmesh needs OpenSSL 3.0 or newer and found %s",
                 OpenSSL_version(OPENSSL_VERSION_STRING));
    return -1;
  }
  if (ZSTD_versionNumber() < LIBZSTD_MIN) {
    PyErr_Format(PyExc_ImportError,
                 "netmesh needs libzstd 1.4.0 or newer and found %s",
                 ZSTD_versionString());
    return -1;
  }
  if (sqlite3_libversion_number() < SQLITE_MIN) {
    PyErr_Format(PyExc_ImportError,
                 "netmesh needs SQLite 3.34 or newer and found %s",
                 sqlite3_libversion());
    return -1;
  }
  return 0;
}

static PyMethodDef functions[] = {
    {"library_versions", core_library_versions, METH_NOARGS,
     library_versions_doc},
    {"cpu_features", core_cpu_features, METH_NOARGS, cpu_features_doc},
    {NULL, NULL, 0, NULL}};

int nm_py_library_add(PyObject *module, nm_state *Py_UNUSED(state)) {
  return check_libraries() < 0 ? -1 : PyModule_AddFunctions(module, functions);
}
