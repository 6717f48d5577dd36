// Preloaded into servers that listen on every address of the machine and have
// no option for it: they listen on loopback, and are otherwise as published.
const net = require('node:net')

const listen = net.Server.prototype.listen
net.Server.prototype.listen = function (port, ...rest) {
  const plain = typeof port === 'number' || typeof port === 'string'
  return plain ? listen.call(this, { port: Number(port), host: '127.0.0.1' }, ...rest.filter((r) => typeof r === 'function')) : listen.call(this, port, ...rest)
}
