// Package config turns environment variables and flags into a Config. It is the only reader of the environment.
//
// Every fault is reported at once, each with the variable's name and what it accepts. Two kinds are told apart: a fault that
// stops the server at its start (Fatal), and one that only the first tool call reports (Lazy), so that a client can still list
// the tools and its agent gets the reason.
package config
