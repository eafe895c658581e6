// Package moduletest tests what other repositories get of the modules of this one: which
// modules an import brings, that the program installs, and that modules of different
// versions build together. It serves the modules from a folder, as a module proxy.
package moduletest
