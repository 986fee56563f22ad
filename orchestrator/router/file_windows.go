//go:build !client

package router

// The store of files needs what Windows does not have. The compiler's error says so.
type _ On_Windows_Mailroom_is_a_client__Build_it_with_tags_client
