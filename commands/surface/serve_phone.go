package surface

import (
	"context"

	"github.com/urfave/cli/v2"

	"mailroom/commands/surface/phone"
	"mailroom/orchestrator"
)

// phoneFlags say where the daemon listens for phones.
func phoneFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "phone", Usage: "`ADDRESS` of the app for phones, a listener of its own; port 0 picks a free one"},
		&cli.StringFlag{Name: "phone-tls-cert", Usage: "`FILE` with the certificate of the app, PEM; without it a proxy with HTTPS stands in front"},
		&cli.StringFlag{Name: "phone-tls-key", Usage: "`FILE` with its key, PEM"},
	}
}

// listenForPhones opens the listener for phones, if there is to be one. ctx ends the requests under way.
func (d *daemon) listenForPhones(ctx context.Context, c *cli.Context) (err error) {
	o := phone.Options{Address: c.String("phone"), Cert: c.String("phone-tls-cert"), Key: c.String("phone-tls-key")}
	switch {
	case o.Address != "":
		d.phone, err = phone.Listen(ctx, d.router, d.log, o)
	case o.Cert != "" || o.Key != "":
		return orchestrator.Errorf(orchestrator.InvalidParams, "phone-tls-cert and phone-tls-key say nothing without phone")
	}
	return err
}
