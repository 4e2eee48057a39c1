# A Rack app for puma and unicorn: HTTP, a stream of events, and a WebSocket where the server lets go
# of a connection (puma).
require "websocket/driver"

PARTS = %w[a b c].map { |letter| letter * 40_000 }

def events
  Enumerator.new do |out|
    200.times do |number|
      out << "data: #{number}\n\n"
      sleep 0.01
    end
  end
end

def pieces
  Enumerator.new do |out|
    10.times do
      out << "piece\n"
      sleep 0.2
    end
  end
end

# What websocket-driver needs to know of a connection.
Cable = Struct.new(:env, :io) do
  def url = "ws://#{env["HTTP_HOST"]}#{env["PATH_INFO"]}"

  def write(bytes) = io.write(bytes)

  def echo
    driver = WebSocket::Driver.rack(self)
    driver.on(:message) { |message| driver.text(message.data.upcase) }
    driver.start
    loop { driver.parse(io.readpartial(65_536)) }
  rescue EOFError
    io.close
  end
end

def hijack(env)
  io = env["rack.hijack"].call
  Thread.new { Cable.new(env, io).echo }
  [-1, {}, []]
end

run lambda { |env|
  case env["PATH_INFO"]
  when "/echo" then [200, {"content-type" => "text/plain"}, [env["rack.input"].read]]
  when "/parts" then [200, {"content-type" => "text/plain"}, PARTS.each]
  when "/pieces"
    env["rack.input"].read
    [200, {"content-type" => "text/plain"}, pieces]
  when "/events" then [200, {"content-type" => "text/event-stream"}, events]
  when "/cable" then hijack(env)
  else [200, {"content-type" => "text/plain"}, [Process.pid.to_s]]
  end
}
