//go:build !client

package router

// The file store needs features that Windows lacks. The name in the compiler's error states what to do.
type _ On_Windows_Mailroom_is_a_client__Build_it_with_tags_client
