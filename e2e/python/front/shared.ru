# A Rack app for puma and unicorn, keeping its busy word.
require_relative "../../../examples/busy-word/weir_busy"

use WeirBusy::Middleware
run(lambda do |env|
  sleep 600 if env["PATH_INFO"] == "/stuck"
  [200, { "content-type" => "text/plain" }, [Process.pid.to_s]]
end)
