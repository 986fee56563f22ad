//go:build !cgo

package sqlite

// Without a C compiler, Go disables cgo, and this package has no SQLite to call. This type makes the compiler's
// first error name the cause, since types are checked first, in the order of the file names. The client needs no C
// and does not import this package.
type _ A_C_compiler_is_missing__SQLite_is_compiled_from_source__Install_gcc_or_clang__or_build_the_client_with_tags_client
