app = ->(env) do
  case env["PATH_INFO"]
  when "/health" then [200, {"content-type" => "text/plain"}, ["fine\n"]]
  else [200, {"content-type" => "text/plain"}, ["Hello from process #{Process.pid}\n"]]
  end
end

run app
