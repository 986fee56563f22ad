package browsertest

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"testing"
)

// Receiver has its own subscription at a push service, with keys that the test holds. It stands for a device that is
// not a browser, or for a browser that cannot subscribe.
type Receiver struct {
	t      *testing.T
	ctx    context.Context
	key    *ecdh.PrivateKey
	secret []byte
	pushes feed[Push]

	Endpoint     string // as in PushSubscription
	P256dh, Auth string // base64url without padding
}

// NewReceiver creates a subscription.
func NewReceiver(ctx context.Context, t *testing.T, s *PushService) *Receiver {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := &Receiver{t: t, ctx: ctx, key: key, secret: make([]byte, 16)}
	rand.Read(r.secret)
	r.P256dh = base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes())
	r.Auth = base64.RawURLEncoding.EncodeToString(r.secret)
	r.Endpoint = s.subscribe(func(p Push) error { r.pushes.add(p); return nil })
	return r
}

// Next waits for the next push and returns its decrypted content.
func (r *Receiver) Next() []byte {
	r.t.Helper()
	p, err := r.pushes.next(r.ctx, nil)
	if err != nil {
		r.t.Fatalf("nothing is pushed: %v", err)
	}
	text, err := r.open(p.Body)
	if err != nil {
		r.t.Fatalf("a push cannot be decrypted: %v", err)
	}
	return text
}

// open decrypts the one record of a push. Source: RFC 8291, section 3.4, and RFC 8188, section 2.1.
func (r *Receiver) open(body []byte) ([]byte, error) {
	if len(body) < 21 || len(body) < 21+int(body[20]) {
		return nil, errors.New("the header is cut off")
	}
	salt, size, sender, sealed := body[:16], binary.BigEndian.Uint32(body[16:20]), body[21:21+int(body[20])], body[21+int(body[20]):]
	if len(sealed) > int(size) {
		return nil, errors.New("there is more than one record")
	}
	public, err := ecdh.P256().NewPublicKey(sender)
	if err != nil {
		return nil, err
	}
	shared, err := r.key.ECDH(public)
	if err != nil {
		return nil, err
	}
	info := "WebPush: info\x00" + string(r.key.PublicKey().Bytes()) + string(sender)
	master, err := hkdf.Key(sha256.New, shared, r.secret, info, 32)
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Key(sha256.New, master, salt, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, err
	}
	nonce, err := hkdf.Key(sha256.New, master, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	text, err := gcm.Open(nil, nonce, sealed, nil)
	if err != nil {
		return nil, err
	}
	for i := len(text) - 1; i >= 0; i-- { // zeros after the delimiter are padding
		if text[i] == 2 {
			return text[:i], nil
		} else if text[i] != 0 {
			break
		}
	}
	return nil, errors.New("the delimiter of the last record is missing")
}
