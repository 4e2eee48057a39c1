app = ->(env) do
  case env["PATH_INFO"]
  when "/health" then [200, {"Content-Type" => "text/plain"}, ["fine\n"]]
  else [200, {"Content-Type" => "text/plain"}, ["Hello from process #{Process.pid}\n"]]
  end
end

run app
