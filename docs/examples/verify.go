package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
)

// IsOurs takes the raw body, X-Service-Signature and, where there is one, X-Service-Signature-Previous.
func IsOurs(secret string, body []byte, signatures ...string) bool {
	if secret == "" {
		return false // anybody can sign with an empty one
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	expected := []byte("sha256=" + hex.EncodeToString(mac.Sum(nil)))
	for _, signature := range signatures {
		if hmac.Equal(expected, []byte(signature)) {
			return true
		}
	}
	return false
}

func main() {
	body, err := io.ReadAll(os.Stdin)
	if err != nil || !IsOurs(os.Getenv("SECRET"), body, os.Getenv("SIGNATURE"), os.Getenv("PREVIOUS")) {
		os.Exit(1)
	}
}
