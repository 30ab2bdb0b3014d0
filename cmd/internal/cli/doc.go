// Package cli holds what every subcommand shares: its streams, and the only table from an error to an exit code.
//
// Data goes to Out, words to Err. A command returns an error and never exits by itself.
package cli
