//go:build !client

package router

// The file store needs features that Windows does not have. The undefined type below makes the compiler report this.
type _ On_Windows_Mailroom_is_a_client__Build_it_with_tags_client
