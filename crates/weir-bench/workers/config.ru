# The sample app of `weir-bench front` for any Rack server: unicorn, pitchfork, puma -w 16 -t 1:1
app = lambda do |env|
  asked = env["QUERY_STRING"][/\bus=(\d+)/, 1].to_i
  sleep(asked / 1e6) if asked.positive?
  [200, { "x-worker" => Process.pid.to_s, "content-type" => "text/plain", "content-length" => "2" }, ["ok"]]
end
if ENV["BENCH_BUSY_WORD"]
  require_relative "../../../examples/busy-word/weir_busy"
  use WeirBusy::Middleware
end
run app
