// Package tree turns a file or a directory tree into a stream and back, on the host and in a guest alike. It carries
// regular files and directories with their permission bits and nothing else: a symlink or a special file anywhere is
// refused, never followed. What is unpacked appears under its name only when it is whole.
package tree
