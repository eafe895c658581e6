// Package uitest tests the admin pages as people use them: a real browser on a real server
// with a real Redis. It also opens the page that stint replay writes.
//
// The tests need Chromium and the npm packages of ui/, and skip without them.
package uitest
