// Starts dynalite on a port, and ends with its standard input, so that it does
// not outlive who started it. Behind the port may stand an address other than
// the loopback interface's, and then it does not look at its input: in a
// container nobody else is to start it and nobody else to end it.
const dynalite = require('dynalite')
const [port, host = '127.0.0.1'] = process.argv.slice(2)
dynalite({ createTableMs: 0, deleteTableMs: 0, updateTableMs: 0 }).listen(Number(port), host)
if (host === '127.0.0.1') process.stdin.on('end', () => process.exit()).resume()
// dynalite throws when a client goes away in the middle of a request.
process.on('uncaughtException', (err) => {
  if (err.code === 'ECONNRESET') return
  console.error(err)
  process.exit(1)
})
