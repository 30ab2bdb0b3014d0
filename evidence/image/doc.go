// Package image holds what the relay knows about saved pictures: the identity that binds a picture to its owner, guest and
// origin, the checks a file must pass before anything decodes it, the bounded preview that is shown to a model, and the
// write-once catalogue and store on the host.
package image
