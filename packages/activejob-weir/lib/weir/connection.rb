# frozen_string_literal: true

require "digest"
require "io/wait"
require "json"
require "openssl"
require "socket"
require "uri"

module Weir
  class Error < StandardError; end

  # The server could not be reached, or the connection was lost.
  class ConnectionLost < Error; end

  # The server rejected a command. The text says why.
  class ServerError < Error
    # The error in a reply that begins with `-`.
    def self.of(text)
      full = text.match(/\ABUSY retry-after=(\d+) /)
      full ? QueueFull.new(text, full[1].to_i) : new(text.delete_prefix("ERR "))
    end
  end

  # The queue has reached its limit, and nothing was enqueued.
  class QueueFull < ServerError
    # Seconds after which another attempt is worthwhile.
    attr_reader :retry_after

    def initialize(text, retry_after)
      super(text)
      @retry_after = retry_after
    end
  end

  # Where a server is: tcp://[:PASSWORD@]HOST[:PORT], or tcp+tls:// with a certificate that the system trusts.
  Address = Struct.new(:host, :port, :password, :tls, keyword_init: true) do
    def self.parse(url = ENV.fetch("FAKTORY_URL", "tcp://127.0.0.1:7419"))
      parts = URI.parse(url)
      unless %w[tcp tcp+tls].include?(parts.scheme) && parts.host
        raise ArgumentError, "write the server as tcp://[:PASSWORD@]HOST[:PORT], or tcp+tls://"
      end
      password = parts.password && URI.decode_www_form_component(parts.password)
      new(host: parts.hostname, port: parts.port || 7419, password: password, tls: parts.scheme == "tcp+tls")
    end
  end

  # A connection of the Faktory protocol, after HELLO. Not for several threads at a time. Every method raises ConnectionLost
  # when the connection is lost: it can't be used any more.
  class Connection
    LINE_BYTES_MAX = 64 * 1024
    BULK_BYTES_MAX = 64 * 1024 * 1024
    HASH_ITERATIONS_MAX = 1_000_000
    LOST = [SystemCallError, SocketError, IOError, OpenSSL::SSL::SSLError].freeze

    # `hello` has the members of a worker, or none.
    def initialize(address, timeout: 10, hello: {})
      @timeout, @pid = timeout, Process.pid
      @io = guarded("can't connect to #{address.host}:#{address.port}") { open(address) }
      greet(address, hello)
    rescue Error
      close
      raise
    end

    # Whether the connection seems open, and is not that of a parent process. Between commands the server sends nothing:
    # what can be read is its end.
    def usable?
      @pid == Process.pid && !@io.closed? && !@io.to_io.wait_readable(0)
    end

    # Sends a command and returns its reply: a string or nil. Raises ServerError.
    def command(verb, payload = nil)
      line = payload.nil? ? verb : "#{verb} #{JSON.generate(payload)}"
      guarded("the connection was lost") { @io.write("#{line}\r\n") }
      reply
    end

    # Waits up to some seconds for a job.
    def fetch(queues)
      job = command("FETCH #{queues.join(" ")}")
      job && JSON.parse(job)
    end

    # Closes the connection in an orderly way.
    def finish
      guarded("the connection was lost") { @io.write("END\r\n") }
    rescue ConnectionLost
      # It has ended already.
    ensure
      close
    end

    def close
      @io&.close
    rescue *LOST
      # It has ended already.
    end

    private

    def open(address)
      socket = Socket.tcp(address.host, address.port, connect_timeout: @timeout)
      socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
      return socket unless address.tls

      context = OpenSSL::SSL::SSLContext.new
      context.set_params(verify_mode: OpenSSL::SSL::VERIFY_PEER)
      tls = OpenSSL::SSL::SSLSocket.new(socket, context)
      tls.sync_close = true
      tls.hostname = address.host
      tls.connect
      tls.post_connection_check(address.host)
      tls
    end

    def greet(address, hello)
      greeting = reply
      raise Error, "#{address.host}:#{address.port} is no server of the Faktory protocol" unless greeting&.start_with?("HI ")

      offer = JSON.parse(greeting.delete_prefix("HI "))
      hello = { v: 2, **hello }
      hello[:pwdhash] = password_hash(address, offer) if offer["s"]
      command("HELLO", hello)
    end

    def password_hash(address, offer)
      raise Error, "the server requires a password: write tcp://:PASSWORD@HOST" unless address.password

      iterations = offer.fetch("i", 1)
      raise Error, "the server requests #{iterations} iterations" unless iterations.between?(1, HASH_ITERATIONS_MAX)

      first = Digest::SHA256.digest(address.password + offer["s"])
      (iterations - 1).times.reduce(first) { |hash, _| Digest::SHA256.digest(hash) }.unpack1("H*")
    end

    def reply
      line = read { @io.gets("\r\n", LINE_BYTES_MAX) }
      raise ConnectionLost, "the server closed the connection" unless line&.end_with?("\r\n")

      kind, rest = line[0], line[1..].chomp.force_encoding(Encoding::UTF_8)
      case kind
      when "+" then rest
      when "-" then raise ServerError.of(rest)
      when "$" then bulk(Integer(rest))
      else raise ConnectionLost, "unexpected reply: #{line[0, 100].inspect}"
      end
    end

    def bulk(size)
      return if size.negative?
      raise ConnectionLost, "a reply of #{size} bytes is too long" if size > BULK_BYTES_MAX

      data = read { @io.read(size + 2) }
      raise ConnectionLost, "the server closed the connection" unless data&.bytesize == size + 2

      data.byteslice(0, size).force_encoding(Encoding::UTF_8)
    end

    def read(&block)
      guarded("the connection was lost") do
        is_buffered = @io.respond_to?(:pending) && @io.pending.positive?
        raise Errno::ETIMEDOUT unless is_buffered || @io.to_io.wait_readable(@timeout)

        block.call
      end
    end

    def guarded(text)
      yield
    rescue *LOST => error
      raise ConnectionLost, "#{text}: #{error.message}"
    end
  end
end
