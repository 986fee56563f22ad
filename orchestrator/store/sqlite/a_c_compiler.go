//go:build !cgo

package sqlite

// Go leaves cgo out where it finds no C compiler, and this package then has nothing to call. The compiler's first error
// says so: types are checked first, in the order of the files' names. The client, which needs no C, does not import this
// package.
type _ A_C_compiler_is_missing__SQLite_is_compiled_from_source__Install_gcc_or_clang__or_build_the_client_with_tags_client
