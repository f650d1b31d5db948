// Command etcd-stub stands in for what a control plane provider reaches inside a workload cluster's nodes: the kubelets'
// port-forward, and behind it the members of a stacked etcd and the API server's own port.
//
// It holds no data: members exist so that their health, number and leader can be asked for and changed.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"google.golang.org/grpc"
)

type options struct {
	listen, control, portFile, apiServer string
	etcdCert, etcdKey, etcdCA            string
}

func parse(arguments []string) (options, error) {
	var parsed options
	flags := flag.NewFlagSet("etcd-stub", flag.ContinueOnError)
	flags.StringVar(&parsed.listen, "listen", "127.0.0.1:0", "address of the kubelets' HTTPS port")
	flags.StringVar(&parsed.control, "control", "127.0.0.1:0", "address of the control API: PUT and GET /members")
	flags.StringVar(&parsed.portFile, "port-file", "", `file that gets {"kubelet": port, "control": port} when both listen`)
	flags.StringVar(&parsed.apiServer, "api-server", "", "host:port that pods named kube-apiserver-<node> forward to")
	flags.StringVar(&parsed.etcdCert, "etcd-cert", "", "server certificate of the etcd members (PEM)")
	flags.StringVar(&parsed.etcdKey, "etcd-key", "", "its key (PEM)")
	flags.StringVar(&parsed.etcdCA, "etcd-ca", "", "certificate authority that clients of etcd must come from (PEM)")
	if err := flags.Parse(arguments); err != nil {
		return options{}, err
	}
	for _, name := range []string{"port-file", "api-server", "etcd-cert", "etcd-key", "etcd-ca"} {
		if flags.Lookup(name).Value.String() == "" {
			return options{}, fmt.Errorf("--%s is required", name)
		}
	}
	return parsed, nil
}

// stub is the running program.
type stub struct {
	etcd                         *grpc.Server
	kubeletServer, controlServer *http.Server
	kubeletSocket, controlSocket net.Listener
	forwarded                    *forwarded
}

// newStub listens, and serves nothing yet.
func newStub(options options) (*stub, error) {
	certificate, err := tls.LoadX509KeyPair(options.etcdCert, options.etcdKey)
	if err != nil {
		return nil, fmt.Errorf("reading the server certificate of etcd: %w", err)
	}
	authority, err := os.ReadFile(options.etcdCA)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authority of etcd: %w", err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("reading the certificate authority of etcd: no certificate in %s", options.etcdCA)
	}
	kubeletSocket, err := net.Listen("tcp", options.listen)
	if err != nil {
		return nil, fmt.Errorf("listening for the kubelets: %w", err)
	}
	controlSocket, err := net.Listen("tcp", options.control)
	if err != nil {
		kubeletSocket.Close()
		return nil, fmt.Errorf("listening for the control API: %w", err)
	}
	membership := NewMembership()
	etcdConnections := newForwarded()
	kubelet := &Kubelet{
		membership: membership,
		etcd:       etcdConnections.dial,
		apiServer:  func() (net.Conn, error) { return net.DialTimeout("tcp", options.apiServer, 10*time.Second) },
	}
	// SPDY takes the connection over, which HTTP/2 does not allow.
	var http1 http.Protocols
	http1.SetHTTP1(true)
	return &stub{
		etcd: NewEtcdServer(membership, &tls.Config{
			Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
		}),
		kubeletServer: &http.Server{
			Handler: kubelet.Handler(), Protocols: &http1, ReadHeaderTimeout: 10 * time.Second,
			// API servers accept any certificate of a kubelet unless they are told its authority.
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		},
		controlServer: &http.Server{Handler: controlHandler(membership), ReadHeaderTimeout: 10 * time.Second},
		kubeletSocket: kubeletSocket,
		controlSocket: controlSocket,
		forwarded:     etcdConnections,
	}, nil
}

// serve ends with the first of the servers that ends.
func (s *stub) serve() error {
	failures := make(chan error, 3)
	go func() { failures <- s.etcd.Serve(s.forwarded) }()
	go func() { failures <- s.kubeletServer.ServeTLS(s.kubeletSocket, "", "") }()
	go func() { failures <- s.controlServer.Serve(s.controlSocket) }()
	return <-failures
}

func port(socket net.Listener) (int, error) {
	address, ok := socket.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("%v is no TCP address", socket.Addr())
	}
	return address.Port, nil
}

// writePorts makes the file appear complete or not at all: whoever started the program waits for it.
func (s *stub) writePorts(path string) error {
	kubelet, kubeletError := port(s.kubeletSocket)
	control, controlError := port(s.controlSocket)
	if err := errors.Join(kubeletError, controlError); err != nil {
		return err
	}
	content, err := json.Marshal(map[string]int{"kubelet": kubelet, "control": control})
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func run() error {
	options, err := parse(os.Args[1:])
	if err != nil {
		return err
	}
	stub, err := newStub(options)
	if err != nil {
		return err
	}
	if err := stub.writePorts(options.portFile); err != nil {
		return fmt.Errorf("writing the ports: %w", err)
	}
	return stub.serve()
}

func main() {
	if err := run(); err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatalf("etcd-stub: %v", err)
	}
}
