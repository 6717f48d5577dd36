// An authorization server that nobody here wrote (npm oidc-provider), for oauth/real_test.go. It listens on loopback,
// prints its issuer in one line, and ends with its standard input.
//
// The clients, as JSON, are the first argument; the resource that tokens may be for is the second.
import http from 'node:http';
import { Provider, errors } from 'oidc-provider';

const [clients, resource] = [JSON.parse(process.argv[2]), process.argv[3]];
const server = http.createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients,
    scopes: ['read', 'write'],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo(ctx, indicator) {
          if (indicator !== resource) throw new errors.InvalidTarget();
          return { scope: 'read write', audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: 300, jwt: { sign: { alg: 'RS256' } } };
        },
      },
    },
  });
  server.on('request', provider.callback());
  console.log(issuer);
});
process.stdin.on('end', () => process.exit(0)).resume();
