// The suite's servers listen on every address of the machine. Loaded before it, this keeps them to the loopback address.
// A host given to listen() would do the same, but later than the suite reads its port.
import net from 'node:net';

const listen = net.Server.prototype._listen2;
net.Server.prototype._listen2 = function (address, ...rest) {
  return listen.call(this, address ?? '127.0.0.1', ...rest);
};
