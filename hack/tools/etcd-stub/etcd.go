package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Etcd answers for all members of the cluster. Which of them is asked shows in the address of the connection.
// Methods that are not written out here answer Unimplemented.
type Etcd struct {
	etcdserverpb.UnimplementedMaintenanceServer
	etcdserverpb.UnimplementedClusterServer
	membership *Membership
}

// NewEtcdServer is a gRPC server of the members' API over TLS.
func NewEtcdServer(membership *Membership, config *tls.Config) *grpc.Server {
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	etcd := &Etcd{membership: membership}
	etcdserverpb.RegisterMaintenanceServer(server, etcd)
	etcdserverpb.RegisterClusterServer(server, etcd)
	return server
}

// asked is the node whose member a call went to, with that member's view.
func (e *Etcd) asked(ctx context.Context) (string, View, error) {
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return "", View{}, status.Error(codes.Internal, "the call has no connection")
	}
	node := caller.Addr.String()
	view := e.membership.View(node)
	if view.Self == 0 {
		return "", View{}, status.Errorf(codes.Unavailable, "no etcd member runs on node %s", node)
	}
	return node, view, nil
}

// agreed is asked, for calls that need the agreement of a quorum.
func (e *Etcd) agreed(ctx context.Context) (string, View, error) {
	node, view, err := e.asked(ctx)
	if err == nil && view.Leader == 0 {
		err = rpctypes.ErrGRPCNoLeader
	}
	return node, view, err
}

func header(view View) *etcdserverpb.ResponseHeader {
	return &etcdserverpb.ResponseHeader{ClusterId: view.ClusterID, MemberId: view.Self, RaftTerm: view.Term}
}

func members(view View) []*etcdserverpb.Member {
	list := make([]*etcdserverpb.Member, 0, len(view.Members))
	for _, member := range view.Members {
		list = append(list, &etcdserverpb.Member{
			ID:         member.ID,
			Name:       member.Name,
			PeerURLs:   []string{fmt.Sprintf("https://%s:2380", member.Name)},
			ClientURLs: []string{fmt.Sprintf("https://%s:2379", member.Name)},
		})
	}
	return list
}

// Status is each member's own word: it answers without a quorum too, and then knows no leader.
func (e *Etcd) Status(ctx context.Context, _ *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	_, view, err := e.asked(ctx)
	if err != nil {
		return nil, err
	}
	response := &etcdserverpb.StatusResponse{
		Header: header(view), Version: version.Version, Leader: view.Leader, RaftTerm: view.Term,
	}
	if view.Leader == 0 {
		response.Errors = append(response.Errors, rpctypes.ErrNoLeader.Error())
	}
	return response, nil
}

// Alarm reports that no member has raised any; raising and clearing them is not served.
func (e *Etcd) Alarm(ctx context.Context, request *etcdserverpb.AlarmRequest) (*etcdserverpb.AlarmResponse, error) {
	if request.GetAction() != etcdserverpb.AlarmRequest_GET {
		return nil, status.Errorf(codes.Unimplemented, "alarms can be listed only, not %s", request.GetAction())
	}
	_, view, err := e.agreed(ctx)
	if err != nil {
		return nil, err
	}
	return &etcdserverpb.AlarmResponse{Header: header(view)}, nil
}

// MoveLeader must be asked of the leader.
func (e *Etcd) MoveLeader(
	ctx context.Context, request *etcdserverpb.MoveLeaderRequest,
) (*etcdserverpb.MoveLeaderResponse, error) {
	node, _, err := e.agreed(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.membership.MoveLeader(node, request.GetTargetID()); err != nil {
		return nil, err
	}
	return &etcdserverpb.MoveLeaderResponse{Header: header(e.membership.View(node))}, nil
}

// MemberList needs a quorum unless the caller contents itself with what the member that it asks believes.
func (e *Etcd) MemberList(
	ctx context.Context, request *etcdserverpb.MemberListRequest,
) (*etcdserverpb.MemberListResponse, error) {
	ask := e.asked
	if request.GetLinearizable() {
		ask = e.agreed
	}
	_, view, err := ask(ctx)
	if err != nil {
		return nil, err
	}
	return &etcdserverpb.MemberListResponse{Header: header(view), Members: members(view)}, nil
}

// MemberRemove may be asked of any member, about itself as well.
func (e *Etcd) MemberRemove(
	ctx context.Context, request *etcdserverpb.MemberRemoveRequest,
) (*etcdserverpb.MemberRemoveResponse, error) {
	node, asked, err := e.agreed(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.membership.Remove(request.GetID()); err != nil {
		return nil, err
	}
	return &etcdserverpb.MemberRemoveResponse{Header: header(asked), Members: members(e.membership.View(node))}, nil
}

// forwarded is the listener of connections that arrive through a port-forward instead of a socket.
type forwarded struct {
	connections chan net.Conn
	closed      chan struct{}
}

func newForwarded() *forwarded {
	return &forwarded{connections: make(chan net.Conn), closed: make(chan struct{})}
}

// dial is a new connection to the member on the node.
func (f *forwarded) dial(node string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case f.connections <- &toNode{Conn: far, node: nodeAddress(node)}:
		return near, nil
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

// Accept implements net.Listener.
func (f *forwarded) Accept() (net.Conn, error) {
	select {
	case connection := <-f.connections:
		return connection, nil
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener; gRPC calls it once.
func (f *forwarded) Close() error {
	close(f.closed)
	return nil
}

// Addr implements net.Listener.
func (f *forwarded) Addr() net.Addr { return nodeAddress("port-forward") }

// toNode is a connection whose remote address names the node that it was forwarded to: gRPC shows handlers no more of a
// connection than this.
type toNode struct {
	net.Conn
	node nodeAddress
}

func (c *toNode) RemoteAddr() net.Addr { return c.node }

type nodeAddress string

func (nodeAddress) Network() string  { return "port-forward" }
func (a nodeAddress) String() string { return string(a) }
