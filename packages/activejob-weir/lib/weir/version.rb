# frozen_string_literal: true

module Weir
  VERSION = "0.1.0"
end
