package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// world is a running stub with everything a client of it needs.
type world struct {
	t                *testing.T
	kubelet, control string
	client           *tls.Config
}

func newWorld(t *testing.T, apiServer string) *world {
	t.Helper()
	folder := t.TempDir()
	place := func(name string) string { return filepath.Join(folder, name) }
	authority, certificate := certificates(t, folder)
	options, err := parse([]string{
		"--port-file", place("ports"), "--api-server", apiServer,
		"--etcd-cert", place("server.crt"), "--etcd-key", place("server.key"), "--etcd-ca", place("ca.crt"),
	})
	if err != nil {
		t.Fatal(err)
	}
	stub, err := newStub(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := stub.writePorts(options.portFile); err != nil {
		t.Fatal(err)
	}
	go stub.serve()
	t.Cleanup(func() {
		stub.etcd.Stop()
		stub.kubeletServer.Close()
		stub.controlServer.Close()
	})
	content, err := os.ReadFile(options.portFile)
	if err != nil {
		t.Fatal(err)
	}
	var ports map[string]json.Number
	if err := json.Unmarshal(content, &ports); err != nil {
		t.Fatal(err)
	}
	return &world{
		t: t, kubelet: "127.0.0.1:" + ports["kubelet"].String(), control: "127.0.0.1:" + ports["control"].String(),
		client: &tls.Config{RootCAs: authority, Certificates: []tls.Certificate{certificate}},
	}
}

// certificates writes ca.crt, server.crt and server.key, and returns the authority and a client's certificate.
func certificates(t *testing.T, folder string) (*x509.CertPool, tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd"}, DNSNames: []string{"etcd-a", "etcd-b", "etcd-c"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	// One self-signed certificate is authority, server and client: this is about who answers, not about chains.
	der, err := x509.CreateCertificate(rand.Reader, certificate, certificate, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificatePEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	for name, content := range map[string][]byte{"ca.crt": certificatePEM, "server.crt": certificatePEM, "server.key": keyPEM} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(certificatePEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(certificatePEM)
	return authority, pair
}

// set is PUT /members.
func (w *world) set(nodes []Node) clusterView {
	w.t.Helper()
	body, err := json.Marshal(nodes)
	if err != nil {
		w.t.Fatal(err)
	}
	request, err := http.NewRequest(http.MethodPut, "http://"+w.control+"/members", strings.NewReader(string(body)))
	if err != nil {
		w.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	var view clusterView
	if err := json.NewDecoder(response.Body).Decode(&view); err != nil || response.StatusCode != http.StatusOK {
		w.t.Fatalf("PUT /members: %s, %v", response.Status, err)
	}
	return view
}

// portForward is one connection to the pod, made as an API server makes it.
func (w *world) portForward(pod string) (net.Conn, error) {
	roundTripper, err := spdy.NewRoundTripper(&tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest(http.MethodPost, "https://"+w.kubelet+"/portForward/kube-system/"+pod, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set(httpstream.HeaderProtocolVersion, portForwardProtocol)
	response, err := (&http.Client{Transport: roundTripper}).Do(request)
	if err != nil {
		return nil, err
	}
	connection, err := roundTripper.NewConnection(response)
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(func() { connection.Close() })
	headers := http.Header{"Port": {"2379"}, "Requestid": {"0"}}
	headers.Set(streamType, "error")
	errorStream, err := connection.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	errorStream.Close()
	headers.Set(streamType, dataStream)
	stream, err := connection.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	return &streamConnection{Stream: stream}, nil
}

// streamConnection is a stream where a connection is asked for. Deadlines are not needed here.
type streamConnection struct {
	httpstream.Stream
	net.Conn
}

func (c *streamConnection) Read(into []byte) (int, error)     { return c.Stream.Read(into) }
func (c *streamConnection) Write(content []byte) (int, error) { return c.Stream.Write(content) }
func (c *streamConnection) Close() error                      { return c.Stream.Reset() }
func (c *streamConnection) LocalAddr() net.Addr               { return nodeAddress("test") }
func (c *streamConnection) RemoteAddr() net.Addr              { return nodeAddress("stub") }
func (c *streamConnection) SetDeadline(time.Time) error       { return nil }
func (c *streamConnection) SetReadDeadline(time.Time) error   { return nil }
func (c *streamConnection) SetWriteDeadline(time.Time) error  { return nil }

// etcd is a client of the member on the node, through the port-forward.
func (w *world) etcd(node string) *clientv3.Client {
	w.t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"etcd-" + node},
		TLS:       w.client,
		Logger:    zap.NewNop(), // failures are what the tests are about
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			return w.portForward("etcd-" + node)
		})},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { client.Close() })
	return client
}

func (w *world) context(limit time.Duration) context.Context {
	context, cancel := context.WithTimeout(context.Background(), limit)
	w.t.Cleanup(cancel)
	return context
}

func TestMembersAnswerThroughThePortForwardOfTheirNode(t *testing.T) {
	world := newWorld(t, "127.0.0.1:1")
	world.set(nodes("a", "b", "c"))
	patience := world.context(20 * time.Second)
	ids := map[string]uint64{}
	for _, node := range []string{"a", "b", "c"} {
		status, err := world.etcd(node).Status(patience, "etcd-"+node)
		if err != nil {
			t.Fatal(err)
		}
		ids[node] = status.Header.MemberId
	}
	client := world.etcd("a")
	list, err := client.MemberList(patience)
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range list.Members {
		if member.ID == 0 || member.ID != ids[member.Name] || len(member.ClientURLs) == 0 || member.IsLearner {
			t.Errorf("member %v; asked itself it was %d", member, ids[member.Name])
		}
	}
	if alarms, err := client.AlarmList(patience); err != nil || len(alarms.Alarms) != 0 {
		t.Errorf("alarms: %v, %v", alarms, err)
	}
	if _, err := client.MoveLeader(patience, ids["c"]); err != nil {
		t.Errorf("moving the leader: %v", err)
	}
	if _, err := client.MemberRemove(patience, ids["b"]); err != nil {
		t.Errorf("removing a member: %v", err)
	}
	status, err := client.Status(patience, "etcd-a")
	if err != nil || status.Leader != ids["c"] {
		t.Errorf("%v leads, want %d: %v", status, ids["c"], err)
	}
	if view := world.set(nodes("a", "b", "c")); len(view.Members) != 2 || view.Leader != "c" {
		t.Errorf("the cluster is %+v", view)
	}
}

func TestADeadNodeRefusesItsPortForward(t *testing.T) {
	world := newWorld(t, "127.0.0.1:1")
	world.set(nodes("a", "b", "!c"))
	for _, pod := range []string{"etcd-c", "etcd-unknown", "kube-apiserver-c", "coredns-a"} {
		if _, err := world.portForward(pod); err == nil || !strings.Contains(err.Error(), "does not run") {
			t.Errorf("%s: %v", pod, err)
		}
	}
	// A connection from better times does not outlive the member either.
	client := world.etcd("b")
	if _, err := client.MemberList(world.context(20*time.Second), clientv3.WithSerializable()); err != nil {
		t.Fatal(err)
	}
	world.set(nodes("a", "!b"))
	_, err := client.MemberList(world.context(300*time.Millisecond), clientv3.WithSerializable())
	if err == nil {
		t.Error("a dead member answers")
	}
}

func TestWithoutAQuorumNothingIsAgreedOn(t *testing.T) {
	world := newWorld(t, "127.0.0.1:1")
	world.set(nodes("a", "b", "c"))
	world.set(nodes("a"))
	client := world.etcd("a")
	status, err := client.Status(world.context(20*time.Second), "etcd-a")
	if err != nil || status.Leader != 0 || len(status.Errors) == 0 {
		t.Errorf("the member's own word: %v, %v", status, err)
	}
	if list, err := client.MemberList(world.context(300 * time.Millisecond)); err == nil {
		t.Errorf("members were listed: %v", list)
	}
}

func TestStrangersAreNotServed(t *testing.T) {
	world := newWorld(t, "127.0.0.1:1")
	world.set(nodes("a"))
	world.client.Certificates = nil
	if _, err := world.etcd("a").Status(world.context(300*time.Millisecond), "etcd-a"); err == nil {
		t.Error("a client without a certificate was answered")
	}
}

func TestAPIServerPodsForwardToTheAPIServer(t *testing.T) {
	apiServer, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer apiServer.Close()
	go func() {
		connection, err := apiServer.Accept()
		if err == nil {
			io.Copy(connection, io.LimitReader(connection, 5))
			connection.Close()
		}
	}()
	world := newWorld(t, apiServer.Addr().String())
	world.set(nodes("a"))
	connection, err := world.portForward("kube-apiserver-a")
	if err != nil {
		t.Fatal(err)
	}
	connection.Write([]byte("hello"))
	answer := make([]byte, 5)
	if _, err := io.ReadFull(connection, answer); err != nil || string(answer) != "hello" {
		t.Errorf("the echo was %q: %v", answer, err)
	}
}

func TestWhatTheControlAPICannotReadIsRefused(t *testing.T) {
	membership := NewMembership()
	membership.SetNodes(nodes("a"))
	for _, body := range []string{`{}`, `[{"alive": true}]`, `[{"name": "b", "dead": true}]`} {
		request, err := http.NewRequest(http.MethodPut, "/members", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		controlHandler(membership).ServeHTTP(answer, request)
		if answer.Code != http.StatusBadRequest || membership.memberNames() != "a" {
			t.Errorf("%s: status %d, members %s", body, answer.Code, membership.memberNames())
		}
	}
}
