module github.com/stintdev/stint/httplimit/jwtverify

go 1.26.0

require (
	github.com/golang-jwt/jwt/v5 v5.3.1
	github.com/stintdev/stint v0.1.0
)
